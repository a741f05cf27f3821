// SPDX-License-Identifier: Apache-2.0

package words

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// occurrence is where a retired word stands.
type occurrence struct {
	file string // from the root
	line int
	text string
}

// sum is the number of occurrences in all folders.
type sum struct{ recorded, counted int }

// kindAndWord is a key without its folder.
func (k key) kindAndWord() key { return key{folder: nowhere, kind: k.kind, word: k.word} }

// sums are those of each word.
func sums(recorded record, counted map[key][]occurrence) map[key]sum {
	all := map[key]sum{}
	for k, count := range recorded.counts {
		s := all[k.kindAndWord()]
		s.recorded += count
		all[k.kindAndWord()] = s
	}
	for k, occurrences := range counted {
		s := all[k.kindAndWord()]
		s.counted += len(occurrences)
		all[k.kindAndWord()] = s
	}
	return all
}

// compare returns a complaint for each folder and word whose count is not the one recorded.
func (r rule) compare(recorded record, counted map[key][]occurrence) []string {
	var complaints []string
	for _, k := range recorded.twice {
		complaints = append(complaints, fmt.Sprintf("%s: %s %q is recorded twice, as after a merge: %s", k.folder, k.kind, k.word, command))
	}
	totals := sums(recorded, counted)
	for _, k := range keys(recorded, counted) {
		want, got := recorded.counts[k], counted[k]
		entry, isRetired := r.entries[k.word]
		switch {
		case !isRetired:
			complaints = append(complaints, fmt.Sprintf("%s: %s %q is recorded, but not in retired.go any more: %s", k.folder, k.kind, k.word, command))
		case len(got) > want:
			complaints = append(complaints, tooMany(k, entry, want, got, totals[k.kindAndWord()]))
		case len(got) < want:
			complaints = append(complaints, fmt.Sprintf("%s: %s %q: %d, recorded are %d. Lower the record: %s", k.folder, k.kind, k.word, len(got), want, command))
		}
	}
	return complaints
}

// shown is how many lines a complaint lists: it cannot tell which are new.
const shown = 5

// tooMany says what has come, what to write instead, and where to look.
func tooMany(k key, entry retired, want int, got []occurrence, total sum) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s %q: %d, recorded are %d. Write %s (%s)", k.folder, k.kind, k.word, len(got), want, entry.instead, entry.why)
	if total.counted <= total.recorded {
		fmt.Fprintf(&out, ".\n  If they have moved here from another folder: %s", command)
	}
	for _, o := range got[:min(len(got), shown)] {
		fmt.Fprintf(&out, "\n  %s:%d: %s", o.file, o.line, o.text)
	}
	if hidden := len(got) - shown; hidden > 0 {
		fmt.Fprintf(&out, "\n  and %d more: go test ./test/words -v -where %q", hidden, k.word)
	}
	return out.String()
}

// lower is the record of what is counted, and a complaint for each word of which there is more than recorded in all folders together: its lines stay as
// they are. So words may move from folder to folder, and a word that the record does not know is recorded as it stands.
func (r rule) lower(recorded record, counted map[key][]occurrence) (lowered record, refused []string) {
	lowered.counts = map[key]int{}
	totals := sums(recorded, counted)
	rises := func(word key) bool {
		total := totals[word]
		return recorded.known(word.kind, word.word) && total.counted > total.recorded
	}
	for _, word := range slices.SortedFunc(maps.Keys(totals), key.compare) {
		if rises(word) {
			refused = append(refused, fmt.Sprintf("%s %q: %d in all folders, recorded are %d: the record is not raised", word.kind, word.word, totals[word].counted, totals[word].recorded))
		}
	}
	for _, k := range keys(recorded, counted) {
		count := len(counted[k])
		if rises(k.kindAndWord()) {
			count = recorded.counts[k]
		}
		if count > 0 {
			lowered.counts[k] = count
		}
	}
	for _, word := range r.words() {
		if !lowered.known(word.kind, word.word) {
			lowered.counts[word] = 0
		}
	}
	return lowered, refused
}

// words are what the rule looks for, each as a key without a folder.
func (r rule) words() []key {
	var all []key
	for _, entry := range r.entries {
		if len(entry.parts)+len(entry.whole) > 0 {
			all = append(all, key{nowhere, inName, entry.word})
		}
		if len(entry.prose) > 0 {
			all = append(all, key{nowhere, inProse, entry.word})
		}
	}
	return all
}

// keys are those of both, sorted.
func keys(recorded record, counted map[key][]occurrence) []key {
	all := slices.Collect(maps.Keys(recorded.counts))
	for k := range counted {
		if _, is := recorded.counts[k]; !is {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, key.compare)
	return all
}

// SPDX-License-Identifier: Apache-2.0

package words

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// key is what one line of the record counts: a retired word in one folder, in names or in prose.
type key struct {
	folder string
	kind   kind
	word   string
}

func (k key) compare(other key) int {
	return cmp.Or(strings.Compare(k.folder, other.folder), strings.Compare(string(k.kind), string(other.kind)), strings.Compare(k.word, other.word))
}

// nowhere is the folder of a line that keeps a word in the record which stands in no folder any more. Otherwise it would be taken for one that has
// just been retired, and recorded as it stands.
const nowhere = "-"

// record is the counts that were recorded.
type record struct {
	counts map[key]int
	// twice are keys with more than one line: a merge has kept those of both sides (.gitattributes). The highest holds.
	twice []key
}

// known says whether the record has a line of the word.
func (r record) known(kind kind, word string) bool {
	for k := range r.counts {
		if k.kind == kind && k.word == word {
			return true
		}
	}
	return false
}

const header = "# Retired words in each folder: folder, kind, word, count. Written by: " + command + "\n"

// command writes the record.
const command = "go test ./test/words -update"

// parseRecord reads lines of folder, kind, word and count, separated by tabs.
func parseRecord(from io.Reader) (record, error) {
	r := record{counts: map[key]int{}}
	lines := bufio.NewScanner(from)
	for number := 1; lines.Scan(); number++ {
		if line := lines.Text(); line != "" && !strings.HasPrefix(line, "#") {
			if err := r.add(line); err != nil {
				return record{}, fmt.Errorf("line %d: %w", number, err)
			}
		}
	}
	return r, lines.Err()
}

func (r *record) add(line string) error {
	fields := strings.Split(line, "\t")
	if len(fields) != 4 {
		return fmt.Errorf("%q: want folder, kind, word and count, separated by tabs", line)
	}
	count, err := strconv.Atoi(fields[3])
	if err != nil || count < 0 {
		return fmt.Errorf("%q: the count must be a number, 0 or more", line)
	}
	k := key{folder: fields[0], kind: kind(fields[1]), word: fields[2]}
	if before, again := r.counts[k]; again {
		r.twice = append(r.twice, k)
		count = max(count, before)
	}
	r.counts[k] = count
	return nil
}

// format is the record as its file has it.
func (r record) format() string {
	var out strings.Builder
	out.WriteString(header)
	for _, k := range slices.SortedFunc(maps.Keys(r.counts), key.compare) {
		fmt.Fprintf(&out, "%s\t%s\t%s\t%d\n", k.folder, k.kind, k.word, r.counts[k])
	}
	return out.String()
}

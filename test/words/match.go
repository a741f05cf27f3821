// SPDX-License-Identifier: Apache-2.0

package words

import (
	"slices"
	"strings"
)

// term is a word of a name or of text, in lower case, with the line where it stands.
type term struct {
	text string
	line int
}

// pause separates what no form spans: sentences, comments, literals. No form contains it.
const pause = "."

// name is an identifier that a file declares, or the file's own name, split into its words.
type name struct {
	words []string
	line  int
}

// source is what a file has of both kinds.
type source struct {
	names []name
	prose []term
}

// kind says where a retired word was found. The values are those of counts.txt.
type kind string

const (
	inName  kind = "name"
	inProse kind = "prose"
)

// form is a spelling of a retired word.
type form struct {
	of    string
	words []string
	whole bool
}

// index finds forms by their first word.
type index map[string][]form

func (x index) add(of string, whole bool, spellings []string) {
	for _, spelling := range spellings {
		words := strings.Fields(spelling)
		x[words[0]] = append(x[words[0]], form{of: of, words: words, whole: whole})
	}
}

// rule is a list of retired words, ready to be looked for.
type rule struct {
	names, prose index
	entries      map[string]retired
}

func newRule(list []retired) rule {
	r := rule{names: index{}, prose: index{}, entries: map[string]retired{}}
	for _, entry := range list {
		r.names.add(entry.word, false, entry.parts)
		r.names.add(entry.word, true, entry.whole)
		r.prose.add(entry.word, false, entry.prose)
		r.entries[entry.word] = entry
	}
	return r
}

// hit is a retired word in a file.
type hit struct {
	key  key
	line int
	// text is what stands there.
	text string
}

// hits are the retired words of a file, which is in folder.
func (r rule) hits(folder string, src source) []hit {
	var found []hit
	for _, n := range src.names {
		for _, word := range inWords(r.names, n.words) {
			found = append(found, hit{key: key{folder, inName, word}, line: n.line, text: strings.Join(n.words, " ")})
		}
	}
	for i, t := range src.prose {
		for _, f := range r.prose[t.text] {
			if startsWith(src.prose[i:], f.words) {
				found = append(found, hit{key: key{folder, inProse, f.of}, line: t.line, text: strings.Join(f.words, " ")})
			}
		}
	}
	return found
}

// inWords are the retired words of a name, each once.
func inWords(forms index, words []string) []string {
	var found []string
	for i, word := range words {
		for _, f := range forms[word] {
			if slices.Contains(found, f.of) || f.whole && len(words) != len(f.words) {
				continue
			}
			if len(words)-i >= len(f.words) && slices.Equal(words[i:i+len(f.words)], f.words) {
				found = append(found, f.of)
			}
		}
	}
	return found
}

func startsWith(text []term, words []string) bool {
	if len(text) < len(words) {
		return false
	}
	for i, word := range words {
		if text[i].text != word {
			return false
		}
	}
	return true
}

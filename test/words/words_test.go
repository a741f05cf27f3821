// SPDX-License-Identifier: Apache-2.0

package words

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

const (
	root = "../.."
	file = "counts.txt"
)

var (
	update = flag.Bool("update", false, "lower the record to the counts; words without a record are recorded as they are")
	where  = flag.String("where", "", "print where this retired word stands")
)

func TestRetiredWordsBecomeFewer(t *testing.T) {
	r := newRule(list)
	counted, err := r.count(root)
	if err != nil {
		t.Fatal(err)
	}
	if *where != "" {
		printOccurrences(counted, *where)
	}
	recorded := readRecord(t)
	if *update {
		lowered, refused := r.lower(recorded, counted)
		for _, complaint := range refused {
			t.Error(complaint)
		}
		if err := os.WriteFile(file, []byte(lowered.format()), 0o644); err != nil {
			t.Fatal(err)
		}
		recorded = lowered
	}
	for _, complaint := range r.compare(recorded, counted) {
		t.Error(complaint)
	}
}

// readRecord is the record, which is empty where there is none.
func readRecord(t *testing.T) record {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && (!os.IsNotExist(err) || !*update) {
		t.Fatalf("%v; %s writes it", err, command)
	}
	r, err := parseRecord(strings.NewReader(string(text)))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return r
}

func printOccurrences(counted map[key][]occurrence, word string) {
	for _, k := range slices.SortedFunc(maps.Keys(counted), key.compare) {
		if k.word != word {
			continue
		}
		for _, o := range counted[k] {
			fmt.Printf("%s:%d: %s: %s\n", o.file, o.line, k.kind, o.text)
		}
	}
}

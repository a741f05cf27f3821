// SPDX-License-Identifier: Apache-2.0

// Command verdict reads what `go test -json` has written of the steps of a run, and says what came of it: which tests failed and what they said,
// which passed in a further try (flaky), and which violations were reported (package violation). scripts/gotest writes the files.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const usage = `usage: verdict [--again] FILE...

Says what came of the steps of a test run. Each FILE holds the events of one step, as go test -json writes them; its name without
".json" names the step. Exit code 0: every test passed, at the latest in its last try; 1: one did not, or a violation was
reported; 2: a file cannot be read.
--again asks whether tests of the steps may be run again: not if there was a violation, or a package failed outside its tests or
amid one. Exit code 1: they may not; the reason is printed.

example: go run ./test/verdict bin/test-results/*.json
`

func main() {
	again := flag.Bool("again", false, "")
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ask := judge
	if *again {
		ask = mayRunAgain
	}
	green, err := ask(os.Stdout, flag.Args())
	switch {
	case err != nil:
		fmt.Fprintf(os.Stderr, "verdict: %v\n", err)
		os.Exit(2)
	case !green:
		os.Exit(1)
	}
}

// judge reports on each file, red ones last.
func judge(to io.Writer, paths []string) (green bool, err error) {
	var red strings.Builder
	for _, path := range paths {
		r, err := readFile(path)
		if err != nil {
			return false, err
		}
		var text strings.Builder
		if r.report(&text) {
			fmt.Fprint(to, text.String())
			continue
		}
		red.WriteString(text.String())
	}
	fmt.Fprint(to, red.String())
	return red.Len() == 0, nil
}

// mayRunAgain reports whether tests of the steps may be run again, and writes why not.
func mayRunAgain(to io.Writer, paths []string) (bool, error) {
	for _, path := range paths {
		r, err := readFile(path)
		if err != nil {
			return false, err
		}
		if why := r.final(); why != "" {
			fmt.Fprintf(to, "%s: %s: nothing is run again\n", r.step, why)
			return false, nil
		}
	}
	return true, nil
}

func readFile(path string) (*results, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(strings.TrimSuffix(filepath.Base(path), ".json"), f)
}

// SPDX-License-Identifier: Apache-2.0

// Command routing is the model of route tables (internal/model) as an oracle of the fuzzer: see bpf/test/oracle.h and
// bpf/test/fuzz_route.c. It draws route tables of every kind, the same ones every time.
//
//	routing maps FILE   writes what the kernel's maps hold of the tables
//	routing seeds DIR   writes inputs that reach the tables' routes, for the fuzzer to begin with
//	routing             answers, from standard input, whether decisions are right
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/xlb-project/xlb/test/fuzz/oracles/question"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "routing:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	w, err := newWorld()
	if err != nil {
		return err
	}
	switch {
	case len(args) == 0:
		if err := question.Serve(bufio.NewReader(os.Stdin), os.Stdout, w.check); !errors.Is(err, io.EOF) {
			return err
		}
		return nil
	case len(args) == 2 && args[0] == "maps":
		return w.writeMaps(args[1])
	case len(args) == 2 && args[0] == "seeds":
		return w.writeSeeds(args[1])
	}
	return errors.New("usage: routing [maps FILE | seeds DIR]")
}

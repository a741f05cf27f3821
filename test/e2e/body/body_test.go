// SPDX-License-Identifier: Apache-2.0

package body_test

import (
	"io"
	"testing"
	"testing/iotest"

	"github.com/xlb-project/xlb/test/e2e/body"
)

func TestStreamDependsOnSeedAloneNotOnReadSizes(t *testing.T) {
	const size = 200_001
	whole, err := io.ReadAll(body.New(7, size))
	if err != nil {
		t.Fatal(err)
	}
	if len(whole) != size {
		t.Fatalf("length: got %d, want %d", len(whole), size)
	}
	single, err := io.ReadAll(iotest.OneByteReader(body.New(7, size)))
	if err != nil {
		t.Fatal(err)
	}
	if string(single) != string(whole) {
		t.Error("reading byte by byte gives another stream")
	}
	if body.Digest(7, size) == body.Digest(8, size) {
		t.Error("two seeds give one stream")
	}
}

func TestNoTwoBlocksOfAStreamAreEqual(t *testing.T) {
	const block = 64 << 10
	whole, err := io.ReadAll(body.New(1, 4*block))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for ; len(whole) > 0; whole = whole[block:] {
		if seen[string(whole[:block])] {
			t.Fatal("a block occurs twice: swapped blocks would go unnoticed")
		}
		seen[string(whole[:block])] = true
	}
}

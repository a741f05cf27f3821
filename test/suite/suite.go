// SPDX-License-Identifier: Apache-2.0

// Package suite says at a test which of the two suites runs it.
//
// `make test` is what a change must pass: it runs with -short, and takes ten minutes. `make test-all` runs every test, in shards. A test belongs to
// both, unless it calls Long.
package suite

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Reasons of tests that `make test` leaves out.
const (
	// Slow: the test takes many seconds.
	Slow = "it takes many seconds"
	// Clock: the verdict depends on times that other work on the machine stretches.
	Clock = "other work on the machine can change its verdict"
	// Machine: the test reads what the whole machine holds, such as its TCP memory, and needs the machine for itself.
	Machine = "it needs the machine for itself"
	// Depth: other tests check the same behaviour; this one checks more cases of it.
	Depth = "it checks more cases of what other tests check"
)

// Long leaves a test to `make test-all`.
func Long(t testing.TB, reason string) {
	t.Helper()
	if testing.Short() {
		t.Skip(Marker + reason)
	}
}

// Marker begins the message of a test that `make test` leaves out.
const Marker = "left to make test-all: "

// SeedVariable is the environment variable with the seed of tests that draw: a number, or "random". Without it the seed is 1, so that a test
// which fails fails again.
const SeedVariable = "XLB_SEED"

// Seed is the seed of a test that draws. The test logs it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed, text := uint64(1), os.Getenv(SeedVariable)
	switch text {
	case "":
	case "random":
		seed = rand.Uint64()
	default:
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: got %q, want a number or \"random\"", SeedVariable, text)
		}
	}
	t.Logf("%s=%d", SeedVariable, seed)
	return seed
}

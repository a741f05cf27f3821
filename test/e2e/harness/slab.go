// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

// The caches of the kernel for objects between 513 bytes and 1 KiB: a struct sk_msg is one.
var kilobytes = regexp.MustCompile(`(?m)^kmalloc-(?:rnd-\d+-)?1k +(\d+) +\d+ +(\d+) `)

// Kilobytes is the memory, in bytes, of the kernel's objects of about a kilobyte, on the whole machine. It keeps one for each message that is
// redirected, until that is read.
func Kilobytes(t testing.TB) (sum int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/slabinfo")
	if err != nil {
		t.Fatal(err)
	}
	found := kilobytes.FindAllSubmatch(text, -1)
	if found == nil {
		t.Fatal("/proc/slabinfo has no cache kmalloc-1k")
	}
	for _, f := range found {
		objects, err := strconv.ParseInt(string(f[1]), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		size, err := strconv.ParseInt(string(f[2]), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += objects * size
	}
	return sum
}

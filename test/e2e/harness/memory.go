// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TCPMemory is the memory that TCP holds on this machine, in bytes.
func TCPMemory(t testing.TB) int64 {
	t.Helper()
	content, err := os.ReadFile("/proc/net/sockstat")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if fields[0] != "TCP:" {
			continue
		}
		for i, f := range fields[:len(fields)-1] {
			if f != "mem" {
				continue
			}
			pages, err := strconv.ParseInt(fields[i+1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return pages * int64(os.Getpagesize())
		}
	}
	t.Fatal("/proc/net/sockstat has no memory of TCP")
	return 0
}

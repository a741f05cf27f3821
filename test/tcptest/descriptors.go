// SPDX-License-Identifier: Apache-2.0

package tcptest

import (
	"net"
	"os"
	"testing"
)

// Descriptors is how many files and sockets this process has open: as many as before, if what was tested has left none.
func Descriptors(t testing.TB) int {
	t.Helper()
	// The runtime's own descriptors are there from the first use of the network.
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

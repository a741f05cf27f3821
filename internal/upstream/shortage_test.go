// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestShortagesAreThoseOfThisHost(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"none", nil, false},
		{"descriptors of this process", unix.EMFILE, true},
		{"descriptors of the host", unix.ENFILE, true},
		{"buffers", unix.ENOBUFS, true},
		{"memory", unix.ENOMEM, true},
		{"ports", unix.EADDRINUSE, true},
		{"ports to one endpoint", unix.EADDRNOTAVAIL, true},
		{"as a dialer wraps it", &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", unix.EMFILE)}, true},
		{"refused", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", unix.ECONNREFUSED)}, false},
		{"no way", unix.EHOSTUNREACH, false},
		{"in time", os.ErrDeadlineExceeded, false},
	} {
		if got := IsShortage(tt.err); got != tt.want {
			t.Errorf("%s: %v: got %t, want %t", tt.name, tt.err, got, tt.want)
		}
		if got, want := IsPortShortage(tt.err), strings.HasPrefix(tt.name, "ports"); got != want {
			t.Errorf("%s: %v: of ports: got %t, want %t", tt.name, tt.err, got, want)
		}
	}
}

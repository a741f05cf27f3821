// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"io"
	"net"
	"testing"
)

// Only an endpoint that had closed before it got anything of a request has certainly not seen it.
func TestUnseen(t *testing.T) {
	read := func(t *testing.T, c *net.TCPConn, n int) {
		t.Helper()
		_, err := io.ReadFull(c, make([]byte, n))
		must(t, err)
	}
	tests := []struct {
		name string
		// before and behind the request, "request", which follows the bytes "before" that the endpoint has answered.
		before, behind func(t *testing.T, endpoint *net.TCPConn)
		want           bool
	}{
		{"closed before", func(t *testing.T, e *net.TCPConn) { must(t, e.Close()) }, nil, true},
		{"read and closed", nil, func(t *testing.T, e *net.TCPConn) { read(t, e, 7); must(t, e.Close()) }, false},
		{"read and reset", nil, func(t *testing.T, e *net.TCPConn) { read(t, e, 7); must(t, e.SetLinger(0)); must(t, e.Close()) }, false},
		{"reset with bytes unread", nil, func(t *testing.T, e *net.TCPConn) { must(t, e.Close()) }, false},
		{
			"sending side closed before, the rest read away",
			func(t *testing.T, e *net.TCPConn) { must(t, e.CloseWrite()) },
			func(t *testing.T, e *net.TCPConn) { read(t, e, 7); must(t, e.SetReadBuffer(1<<20)); must(t, e.Close()) },
			false,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, _, endpoint := pair(t)
			send := func(s string) {
				t.Helper()
				_, err := c.Write([]byte(s))
				must(t, err)
			}
			c.Begin()
			send("before")
			read(t, endpoint, 6)
			_, err := endpoint.Write([]byte("x"))
			must(t, err)
			_, err = io.ReadFull(c, make([]byte, 1))
			must(t, err)

			if test.before != nil {
				test.before(t, endpoint)
			}
			c.Begin()
			send("request")
			if test.behind != nil {
				test.behind(t, endpoint)
			}
			_, _ = io.ReadAll(c) // to the end, whatever that is
			if got := c.Unseen(); got != test.want {
				t.Errorf("unseen: got %v, want %v", got, test.want)
			}
		})
	}
}

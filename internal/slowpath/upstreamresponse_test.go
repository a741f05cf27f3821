// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/slowpath/h1/h1test"
)

const okLine = h1test.OK

func TestServeRefusesHostileAnswers(t *testing.T) {
	for _, tc := range h1test.HostileResponses {
		t.Run(tc.Name, func(t *testing.T) {
			closed := make(chan struct{})
			endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
				readHeadOf(r)
				_, _ = io.WriteString(conn, tc.Raw)
				if _, err := io.Copy(io.Discard, r); !errors.Is(err, net.ErrClosed) {
					close(closed)
				}
			})
			f := newFront(t, list(endpoint))
			got := f.exchange("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			got = got[strings.LastIndex(got, "HTTP/1.1 "):] // behind interim ones
			if !strings.HasPrefix(got, "HTTP/1.1 502 ") || !strings.HasSuffix(got, "protocol error") {
				t.Errorf("got %q", got)
			}
			select {
			case <-closed:
			case <-time.After(patience):
				t.Error("the endpoint's connection is still open")
			}
			if n := f.proxy.Counters().Flag(FlagUpstreamProtocolError); n != 1 {
				t.Errorf("UPE counted %d times", n)
			}
		})
	}
}

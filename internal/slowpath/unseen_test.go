// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/workload"
)

// An endpoint that closes connections before it has read anything gets the request once more, whatever its method; one that has read it does not.
func TestOnlyARequestThatNobodyHasSeenIsSentAgain(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, reads := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reads %v", method, reads), func(t *testing.T) {
				t.Parallel()
				var opened, dials, requests atomic.Int64
				endpoint := rawEndpoint(t, func(c net.Conn, r *bufio.Reader) {
					if opened.Add(1) == 1 && !reads {
						return
					}
					if readHeadOf(r) == "" {
						return
					}
					if requests.Add(1) == 1 && reads {
						return
					}
					_, _ = io.WriteString(c, okLine+"Content-Length: 2\r\n\r\nok")
				})
				f := newFront(t, list(endpoint), func(c *Config, _ *model.Route) {
					c.Dial = func(ctx context.Context, from workload.ID, to netip.AddrPort) (net.Conn, error) {
						conn, err := conns.Dial(ctx, from, to)
						if err == nil && !reads && dials.Add(1) == 1 {
							u := upstream.New(conn.(upstream.TCP))
							eventually(t, "the endpoint closes", func() bool { return !u.Quiet() })
						}
						return conn, err
					}
				})
				conn := f.dial()
				_, _ = io.WriteString(conn, method+" / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody")
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				want, wantConns := http.StatusOK, int64(2)
				if reads {
					want, wantConns = http.StatusServiceUnavailable, 1
				}
				if resp.StatusCode != want || opened.Load() != wantConns || requests.Load() != 1 {
					t.Errorf("got %d over %d connections, the endpoint has read %d; want %d over %d, and 1 read",
						resp.StatusCode, opened.Load(), requests.Load(), want, wantConns)
				}
			})
		}
	}
}

// What was taken from the connection before is served first, and not counted as read from it.
func TestServeBeginsWithWhatLiesAhead(t *testing.T) {
	endpoint := rawEndpoint(t, func(c net.Conn, r *bufio.Reader) {
		for head := readHeadOf(r); head != ""; head = readHeadOf(r) {
			body := strings.Fields(head)[1]
			_, _ = fmt.Fprintf(c, "%sContent-Length: %d\r\n\r\n%s", okLine, len(body), body)
		}
	})
	f := newFront(t, list(endpoint))
	client, server := net.Pipe()
	defer client.Close()
	served := make(chan Result, 1)
	go func() {
		r, _ := f.proxy.Serve(t.Context(), server, Session{Listener: "l", Resumed: &ResumedRequest{Request: "GET /ahead HTTP/1.1\r\nHost: a\r\n\r\n"}})
		served <- r
	}()
	resp, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != "/ahead" {
		t.Fatalf("answer: got %q, %v", body, err)
	}
	if r := waitFor(t, "the end of the call", served); !r.Quiet || r.Consumed != 0 || r.Answered == 0 {
		t.Errorf("result: got %+v, want a quiet connection of which nothing was read", r)
	}
}

// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// A request that waits keeps its route, but reaches no endpoint of a cluster that has been removed meanwhile: Envoy looks for the cluster behind a delay, and
// for each attempt.
func TestARequestThatWaitsReachesNoClusterThatWasRemovedMeanwhile(t *testing.T) {
	refusing := func(t *testing.T) netip.AddrPort {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return netip.MustParseAddrPort(l.Addr().String())
	}
	tests := []struct {
		name string
		// first is an endpoint before the one that must not be reached; nil: no other.
		first  func(t *testing.T) netip.AddrPort
		option frontOption
	}{
		{"it is delayed", nil, faulty(model.Fault{Delay: 20 * time.Millisecond})},
		{"it is sent again", func(t *testing.T) netip.AddrPort { return saying(t, "HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n") },
			retried(model.Retry{On: model.RetryOn5xx, Retries: 3})},
		{"a connection is refused", refusing, func(*Config, *model.Route) {}},
	}
	for _, tt := range tests {
		for _, removed := range []bool{false, true} {
			name := tt.name + ", the cluster stays"
			if removed {
				name = tt.name + ", the cluster goes"
			}
			t.Run(name, func(t *testing.T) {
				var reached atomic.Int32
				last := rawEndpoint(t, func(c net.Conn, r *bufio.Reader) {
					readHeadOf(r)
					reached.Add(1)
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				})
				endpoints := list(last)
				if tt.first != nil {
					endpoints = list(tt.first(t), last)
				}
				f := newFront(t, endpoints, tt.option, func(c *Config, _ *model.Route) {
					before := activeOf(c)
					next := *before
					next.cluster = func(string) *model.Cluster { return nil }
					var matched atomic.Bool
					before.match = func(table *model.RouteTable, r *matcher.Request, _ func() (gone bool)) *model.Route {
						matched.Store(true)
						return table.Match(r)
					}
					c.Active = func() Configuration {
						if removed && matched.Load() {
							return &next
						}
						return before
					}
				})
				got := f.exchange("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
				want, times := "HTTP/1.1 200 ", int32(1)
				if removed {
					want, times = "HTTP/1.1 503 ", 0
				}
				if !strings.HasPrefix(got, want) || reached.Load() != times {
					t.Errorf("the endpoint was reached %d times, the client got %q; want %d, %q", reached.Load(), got, times, want)
				}
			})
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"context"
	"io"
	"maps"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/usage"
	"github.com/xlb-project/xlb/internal/workload"
)

// Each request counts for the workload of its client and its cluster, once, and each byte that was read or written.
func TestRequestsAndBytesCountByWorkloadAndCluster(t *testing.T) {
	const post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n01234"
	echo := func(conn net.Conn, r *bufio.Reader) {
		line, _ := r.ReadString('\n')
		_, _ = io.WriteString(conn, line)
	}
	switching := func(conn net.Conn, r *bufio.Reader) {
		readHeadOf(r)
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: test\r\n\r\n")
		echo(conn, r)
	}
	for _, tt := range []struct {
		name     string
		session  Session
		request  string
		options  []frontOption
		serve    func(net.Conn, *bufio.Reader)
		cluster  string
		requests uint64
	}{
		{name: "one", request: lastGet, cluster: "c", requests: 1},
		{name: "three on a connection", request: get + post + lastGet, cluster: "c", requests: 3},
		{name: "of a route to a cluster that is not there", request: "GET /gone HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", requests: 1},
		{name: "a part of one", request: "GET / HT", requests: 1},
		{name: "no request", request: "GET\r\n\r\n", requests: 1},
		{name: "of another listener of this process", session: Session{From: func() upstream.Origin { return upstream.Origin{Workload: greedy, Account: greedy, Depth: 1, Copies: 8} }}, request: get + lastGet, cluster: "c", requests: 2},
		{name: "an upgrade", request: "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: test\r\n\r\nhello\n", options: []frontOption{upgrading}, serve: switching, cluster: "c", requests: 1},
		{name: "without HTTP", request: "hello\n", options: []frontOption{withoutHTTP}, serve: echo, cluster: "c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			serve := tt.serve
			if serve == nil {
				serve = func(conn net.Conn, r *bufio.Reader) {
					for head := readHeadOf(r); head != ""; head = readHeadOf(r) {
						if strings.HasPrefix(head, "POST") {
							_, _ = r.Discard(5)
						}
						_, _ = io.WriteString(conn, ok2)
					}
				}
			}
			ledger := usage.NewLedger(9)
			ledger.Join(greedy, greedy)
			f := newFront(t, list(rawEndpoint(t, serve)), append(tt.options, dialAsHost, func(c *Config, _ *model.Route) { c.Ledger = ledger })...)
			s := tt.session
			s.Listener = "l"
			if s.From == nil {
				s.Workload, s.Account = greedy, greedy
			}
			client, server := tcpPair(t)
			_, _ = io.WriteString(client, tt.request)
			_ = conns.CloseWrite(client)
			answers := make(chan int, 1)
			go func() {
				n, _ := io.Copy(io.Discard, client)
				answers <- int(n)
			}()
			for quiet := true; quiet; {
				r, _ := f.proxy.Serve(t.Context(), server, s)
				quiet = r.Quiet
			}
			_ = server.Close()
			want := usage.Sum{{Workload: greedy, Cluster: tt.cluster}: {Requests: tt.requests, RequestBytes: uint64(len(tt.request)), ResponseBytes: uint64(<-answers)}}
			if got := ledger.With(nil).Sum(); !maps.Equal(got, want) {
				t.Errorf("counted %v, want %v", got, want)
			}
		})
	}
}

// The client of a connection of this process may send another workload's request before what serves the connection has counted the last one.
func TestBytesCountForTheWorkloadThatSentThem(t *testing.T) {
	const next workload.ID = greedy + 1
	var from atomic.Pointer[upstream.Origin]
	from.Store(&upstream.Origin{Workload: greedy, Account: greedy})
	ledger := usage.NewLedger(9)
	ledger.Join(greedy, greedy)
	ledger.Join(next, next)
	endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		readHeadOf(r)
		from.Store(&upstream.Origin{Workload: next, Account: next})
		_, _ = io.WriteString(conn, ok2)
	})
	f := newFront(t, list(endpoint), dialAsHost, func(c *Config, _ *model.Route) { c.Ledger = ledger })
	client, server := tcpPair(t)
	_, _ = io.WriteString(client, lastGet)
	_, _ = f.proxy.Serve(t.Context(), server, Session{Listener: "l", From: func() upstream.Origin { return *from.Load() }})
	answer, _ := io.ReadAll(client)
	want := usage.Sum{{Workload: greedy, Cluster: "c"}: {Requests: 1, RequestBytes: uint64(len(lastGet)), ResponseBytes: uint64(len(answer))}}
	if got := ledger.With(nil).Sum(); !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

// A request that the fast path has begun is counted there, also when it is sent anew here; the bytes of its answer count here.
func TestAResumedRequestCountsOnTheFastPath(t *testing.T) {
	for _, tt := range []struct {
		name    string
		resumed func(*testing.T, *front, netip.AddrPort) *ResumedRequest
		options []frontOption
	}{
		{"it has no answer, and is not sent again", lostLease, nil},
		{"it is sent anew", withheld, []frontOption{retrying}},
		{"no endpoint has seen it", unseen, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			endpoint := saying200(t)
			ledger := usage.NewLedger(9)
			f := newFront(t, list(endpoint), append(tt.options, func(c *Config, _ *model.Route) { c.Ledger = ledger })...)
			client, server := tcpPair(t)
			go func() { _, _ = io.Copy(io.Discard, client) }()
			_, _ = f.proxy.Serve(t.Context(), server, Session{Listener: "l", Resumed: tt.resumed(t, f, endpoint)})
			got := ledger.With(nil).Sum()[usage.Destination{Workload: workload.Host, Cluster: "c"}]
			if got.Requests != 0 || got.ResponseBytes == 0 {
				t.Errorf("counted %+v, want no request, and the bytes of an answer", got)
			}
		})
	}
}

func upgrading(_ *Config, r *model.Route) { r.Upgrades = []string{"test"} }

func dialAsHost(c *Config, _ *model.Route) {
	c.Dial = func(ctx context.Context, _ workload.ID, to netip.AddrPort) (net.Conn, error) {
		return conns.Dial(ctx, workload.Host, to)
	}
}

// What a connection without HTTP moves counts although the ledger has forgotten its cluster in between.
func TestALongConnectionCountsWhenItsClusterIsThereAgain(t *testing.T) {
	ledger := usage.NewLedger(9)
	f := newFront(t, list(rawEndpoint(t, func(c net.Conn, r *bufio.Reader) { _, _ = io.Copy(c, r) })), withoutHTTP, func(c *Config, _ *model.Route) { c.Ledger = ledger })
	conn := f.dial()
	to := usage.Destination{Cluster: "c"}
	for range 2 {
		if _, err := io.WriteString(conn, "hello"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "five bytes each way count", func() bool {
			got := ledger.With(nil).Sum()[to]
			return got.RequestBytes == 5 && got.ResponseBytes == 5 && got.SlowWork > 0
		})
		ledger.Sweep(func(usage.Destination) bool { return false })
	}
}

// The time behind a response counts for the request's cluster, too, though no request follows: a connection is given back to the fast path then.
func TestTheEndOfARequestsWorkCountsForItsCluster(t *testing.T) {
	ledger := usage.NewLedger(9)
	endpoint := rawEndpoint(t, func(c net.Conn, r *bufio.Reader) {
		for readHeadOf(r) != "" {
			_, _ = io.WriteString(c, ok2)
		}
	})
	f := newFront(t, list(endpoint), func(c *Config, _ *model.Route) { c.Ledger = ledger })
	conn := f.dial()
	_, _ = io.WriteString(conn, get)
	eventually(t, "the request has been served", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.results) > 0 && f.results[0].Quiet
	})
	sum := ledger.With(nil).Sum()
	if of, none := sum[usage.Destination{Cluster: "c"}].SlowWork, sum[usage.Destination{}].SlowWork; of == 0 || none != 0 {
		t.Errorf("%s of work count for the cluster, and %s for none", of, none)
	}
}

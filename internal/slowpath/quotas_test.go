// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/quota"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/workload"
)

// Two workloads, of which one takes all it can.
const (
	greedy workload.ID = 1 + iota
	modest
)

const slowGet = "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"

// workloads is a front whose clients are of several workloads.
type workloads struct {
	*front
	serving sync.WaitGroup
}

func newWorkloads(t *testing.T, requests *quota.Table[workload.ID], endpoint netip.AddrPort, options ...frontOption) *workloads {
	w := &workloads{}
	t.Cleanup(w.serving.Wait)
	w.front = newFront(t, list(endpoint), append(options, func(c *Config, _ *model.Route) {
		c.Requests = requests
		c.Dial = func(ctx context.Context, _ workload.ID, to netip.AddrPort) (net.Conn, error) {
			return conns.Dial(ctx, workload.Host, to)
		}
	})...)
	return w
}

// open has a client of a workload send something.
func (w *workloads) open(of workload.ID, raw string) net.Conn {
	w.t.Helper()
	return w.openSession(Session{Listener: "l", Workload: of, Account: of}, raw)
}

func (w *workloads) openSession(s Session, raw string) net.Conn {
	w.t.Helper()
	client, server := boundedPair(w.t.(*testing.T))
	if _, err := io.WriteString(client, raw); err != nil {
		w.t.Fatal(err)
	}
	w.serving.Go(func() {
		for quiet := true; quiet; s.Resumed = nil {
			r, _ := w.proxy.Serve(context.Background(), server, s)
			quiet = r.Quiet
		}
	})
	return client
}

// hang has clients of a workload send requests that are not answered, and waits until they are in progress.
func (w *workloads) hang(of workload.ID, n int) (clients []net.Conn) {
	w.t.Helper()
	for range n {
		clients = append(clients, w.open(of, slowGet))
	}
	eventually(w.t, "the requests are in progress", func() bool { return w.proxy.RequestUsage().By[of].Taken == n })
	return clients
}

// ask is the answer to a request of a workload, which has ended then. Those that are in progress go on meanwhile.
func (w *workloads) ask(of workload.ID) string {
	w.t.Helper()
	before := w.proxy.RequestUsage().Taken
	client := w.open(of, lastGet)
	answer, err := io.ReadAll(client)
	if err != nil {
		w.t.Error(err)
	}
	eventually(w.t, "the request has ended", func() bool { return w.proxy.RequestUsage().Taken == before })
	return string(answer)
}

func (w *workloads) mustServe(of workload.ID) {
	w.t.Helper()
	if got := w.ask(of); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
		w.t.Errorf("a client of workload %d got %q", of, got)
	}
}

func (w *workloads) mustRefuse(of workload.ID) {
	w.t.Helper()
	if got := w.ask(of); !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.HasSuffix(got, "envoy overloaded") {
		w.t.Errorf("a client of workload %d got %q", of, got)
	}
}

func closeAll(clients []net.Conn) {
	for _, c := range clients {
		_ = c.Close()
	}
}

// slow answers each request at once, but those for /slow only when their client has gone.
func slow(t *testing.T) netip.AddrPort {
	return httpEndpoint(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-r.Context().Done()
		}
	})
}

func TestAWorkloadHasAsManyRequestsInProgressAsAreLeftFree(t *testing.T) {
	w := newWorkloads(t, quota.New[workload.ID](12, 1), slow(t))
	w.proxy.Join(greedy, greedy)
	w.proxy.Join(modest, modest)
	hanging := w.hang(greedy, 6)
	for range 4 {
		w.mustRefuse(greedy)
	}
	for range 20 {
		w.mustServe(modest)
	}
	others := w.hang(modest, 3)
	w.mustServe(workload.Host)
	want := map[workload.ID]quota.Use{greedy: {Taken: 6, Refused: 4}, modest: {Taken: 3}}
	if got := w.proxy.RequestUsage(); !maps.Equal(got.By, want) || got.Refused != 4 {
		t.Errorf("usage: %+v, want %v", got, want)
	}
	if got := w.proxy.Counters().Flag(FlagOverloadManager); got != 4 {
		t.Errorf("%d requests have the flag OM, want 4", got)
	}
	closeAll(append(hanging, others...))
	eventually(t, "all have ended", func() bool { return w.proxy.RequestUsage().Taken == 0 })
	w.mustServe(greedy)
}

func TestTheHostAloneHasAllRequestsAndSharesThemWhileOthersAreServed(t *testing.T) {
	w := newWorkloads(t, quota.New[workload.ID](4, 1), slow(t))
	w.proxy.Join(workload.Host, workload.Host)
	hanging := w.hang(workload.Host, 3)
	w.mustServe(workload.Host)
	w.proxy.Join(greedy, greedy)
	w.mustRefuse(workload.Host)
	w.mustServe(greedy)
	w.proxy.Join(modest, modest)
	w.proxy.Leave(greedy)
	w.mustRefuse(workload.Host)
	w.proxy.Leave(modest)
	w.mustServe(workload.Host)
	closeAll(hanging)
}

func TestWhatIsKnownOfAWorkloadIsForgottenWhenItLeaves(t *testing.T) {
	w := newWorkloads(t, quota.New[workload.ID](2, 1), slow(t))
	w.proxy.Join(greedy, greedy)
	hanging := w.hang(greedy, 1)
	w.mustRefuse(greedy)
	w.proxy.Leave(greedy)
	if got := w.proxy.RequestUsage(); len(got.By) != 0 || got.Taken != 1 || got.Refused != 1 {
		t.Errorf("usage: %+v, want the request in progress, and the one that was refused, of no workload", got)
	}
	closeAll(hanging)
}

// The fast path has begun it, so that it comes without a head on the connection. What the proxy does for it takes a descriptor like any other's.
func TestAResumedRequestTakesAnEntryWhenTheProxySendsIt(t *testing.T) {
	for _, tt := range []struct {
		name    string
		resumed func(*testing.T, *front, netip.AddrPort) *ResumedRequest
		entries int
		status  string
		refused uint64
	}{
		{"no endpoint has seen it", unseen, 1, "200", 0},
		{"likewise, and there is no entry", unseen, 0, "503", 1},
		{"its answer is withheld", withheld, 1, "200", 0},
		{"likewise, and there is no entry: that is the answer", withheld, 0, "503", 1},
		{"its connection was lost", lostLease, 1, "200", 0},
		{"likewise, and there is no entry", lostLease, 0, "503", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			endpoint := slow(t)
			w := newWorkloads(t, quota.New[workload.ID](tt.entries, 1), endpoint, retrying)
			client := w.openSession(Session{Listener: "l", Resumed: tt.resumed(t, w.front, endpoint)}, "")
			if got := readHeadOf(bufio.NewReader(client)); !strings.HasPrefix(got, "HTTP/1.1 "+tt.status+" ") {
				t.Errorf("the client got %q, want %s", got, tt.status)
			}
			eventually(t, "the request has ended", func() bool { return w.proxy.RequestUsage().Taken == 0 })
			if got := w.proxy.RequestUsage().Refused; got != tt.refused {
				t.Errorf("%d requests were refused, want %d", got, tt.refused)
			}
		})
	}
}

// Clients whose requests have found no i-sock hold a descriptor each for as long as the endpoint likes.
func TestResumedRequestsInProgressCount(t *testing.T) {
	w := newWorkloads(t, quota.New[workload.ID](4, 1), slow(t))
	w.proxy.Join(greedy, greedy)
	var clients []net.Conn
	for range 4 {
		clients = append(clients, w.openSession(Session{Listener: "l", Workload: greedy, Account: greedy, Resumed: &ResumedRequest{Request: slowGet, Began: time.Now()}}, ""))
	}
	eventually(t, "two are in progress, and two were refused", func() bool {
		return w.proxy.RequestUsage().By[greedy] == quota.Use{Taken: 2, Refused: 2}
	})
	closeAll(clients)
}

func TestConnectionsWithoutHTTPCountAsRequestsInProgress(t *testing.T) {
	w := newWorkloads(t, quota.New[workload.ID](2, 1), rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) { _, _ = io.Copy(conn, r) }), withoutHTTP)
	w.proxy.Join(greedy, greedy)
	w.proxy.Join(modest, modest)
	first := w.open(greedy, "hello")
	mustRead(t, first, "hello")
	if b, err := io.ReadAll(w.open(greedy, "hello")); len(b) > 0 || isTimeout(err) {
		t.Errorf("the connection over the quota got %q, %v; want its end", b, err)
	}
	if got := w.proxy.RequestUsage(); got.By[greedy] != (quota.Use{Taken: 1, Refused: 1}) {
		t.Errorf("usage: %+v", got)
	}
	if _, err := io.WriteString(first, "again"); err != nil {
		t.Fatal(err)
	}
	mustRead(t, first, "again")
	_ = first.Close()
	eventually(t, "the connection has ended", func() bool { return w.proxy.RequestUsage().Taken == 0 })
	second := w.open(greedy, "hello")
	mustRead(t, second, "hello")
	_ = second.Close()
}

func mustRead(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Fatalf("got %q, %v; want %q", got, err, want)
	}
}

// What passes several listeners of this process is one request.
func TestARequestThatPassesListenersCountsOnce(t *testing.T) {
	h := newInnerListeners(t, map[byte]*model.Route{1: leads(2), 2: leads(3), 3: leads(4), 4: answers()})
	h.proxy.quotas.requests = quota.New[workload.ID](1, 1)
	for range 3 {
		h.askFrom(t, 1, Session{Workload: greedy, Account: greedy}, lastGet)
		eventually(t, "the request has ended", func() bool { return h.proxy.RequestUsage().Taken == 0 })
	}
	if n, refused := h.total(), h.proxy.RequestUsage().Refused; n != 12 || refused != 0 {
		t.Errorf("listeners were passed %d times, and %d requests refused; want 12, none", n, refused)
	}
}

// What comes from another listener first, as a connection that others begin, is of the workload that it began in.
func TestARequestCountsForTheWorkloadThatItIsOf(t *testing.T) {
	w := newWorkloads(t, quota.New[workload.ID](2, 1), slow(t))
	w.proxy.Join(greedy, greedy)
	client := w.openSession(Session{Listener: "l", From: func() upstream.Origin { return upstream.Origin{Workload: greedy, Account: greedy} }}, slowGet)
	eventually(t, "the request counts", func() bool { return w.proxy.RequestUsage().By[greedy].Taken == 1 })
	_ = client.Close()
}

func TestAWorkloadHasAsManyCopiesUnderWayAsAreLeftFree(t *testing.T) {
	w := newWorkloads(t, nil, slow(t), mirroring(silent(t)))
	w.proxy.Join(greedy, greedy)
	w.proxy.Join(modest, modest)
	for range maxMirrors/2 + 10 {
		w.mustServe(greedy)
	}
	w.mustServe(modest)
	want := map[workload.ID]quota.Use{greedy: {Taken: maxMirrors / 2, Refused: 10}, modest: {Taken: 1}}
	if got := w.proxy.CopyUsage(); !maps.Equal(got.By, want) {
		t.Errorf("usage: %+v, want %v", got, want)
	}
	w.proxy.Close()
	eventually(t, "the copies end with the proxy", func() bool { return w.proxy.CopyUsage().Taken == 0 })
}

// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/quota"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/workload"
)

// longField makes a head of three blocks, each of which counts twice.
var longField = "X: " + strings.Repeat("x", 2*h1.BlockSize) + "\r\n"

// post is a request with a body of so many bytes, of which less are sent.
func post(path string, length, sent int) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", path, length, strings.Repeat("b", sent))
}

func withLongHead(request string) string {
	return strings.Replace(request, "Host", longField+"Host", 1)
}

func withMemory(blocks int) frontOption {
	return func(c *Config, _ *model.Route) { c.Memory = quota.New[workload.ID](blocks, 1) }
}

// answersEarly answers a head, whose body it reads to its end afterwards.
func answersEarly(t testing.TB) netip.AddrPort {
	return rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		readHeadOf(r)
		_, _ = io.WriteString(conn, ok2)
		_, _ = io.Copy(io.Discard, r)
	})
}

func resets(t testing.TB) netip.AddrPort {
	return rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		_, _ = io.CopyN(io.Discard, r, 50000)
		_ = conn.(*net.TCPConn).SetLinger(0)
	})
}

// failsOnce answers the first request for each path 503, when it has read its body, and later ones 200. One for /slow it answers when its client has gone.
func failsOnce(t testing.TB) netip.AddrPort {
	var seen sync.Map
	return httpEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/slow" {
			<-r.Context().Done()
		}
		if _, again := seen.LoadOrStore(r.URL.Path, true); !again {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
}

// What a request takes of the memory that workloads share it gives back, however it ends, and whether it has got any.
func TestARequestGivesBackTheMemoryThatItHasTaken(t *testing.T) {
	const long, part = 100000, 50000
	for _, tt := range []struct {
		name     string
		endpoint func(testing.TB) netip.AddrPort
		request  string
		option   frontOption
		// leaves: the client goes when the request has taken something.
		leaves bool
		// early: the request may be answered, and the connection end, before it asks for memory.
		early bool
	}{
		{name: "a body, answered", endpoint: func(t testing.TB) netip.AddrPort { return echoing(t.(*testing.T)) }, request: post("/", long, long)},
		{name: "a body, sent again", endpoint: failsOnce, request: post("/", long, long)},
		{name: "a body, answered early", endpoint: answersEarly, request: post("/", long, long), early: true},
		{name: "a body, never answered", endpoint: silent, request: post("/", long, long), leaves: true},
		{name: "a body that ends early", endpoint: silent, request: post("/", long, part), leaves: true},
		{name: "a body, and the endpoint resets", endpoint: resets, request: post("/", long, long)},
		{name: "a body, and no answer in time", endpoint: silent, request: post("/", long, long), option: routeTimeout(100 * time.Millisecond)},
		{name: "a body that stalls", endpoint: silent, request: post("/", long, part), option: withLimits(Limits{StreamIdle: 100 * time.Millisecond})},
		{name: "a body that is too long", endpoint: silent, request: post("/", 2<<20, 2<<20), option: routeTimeout(100 * time.Millisecond)},
		{name: "a body with chunks that is malformed", endpoint: silent, request: "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n7000\r\n" + strings.Repeat("b", 0x7000) + "\r\n?"},
		{name: "a head, answered", endpoint: failsOnce, request: withLongHead(lastGet)},
		{name: "a head, and another request behind it", endpoint: failsOnce, request: withLongHead(get) + lastGet},
		{name: "a head, and another one behind it", endpoint: failsOnce, request: withLongHead(get) + withLongHead(lastGet)},
		{name: "a head, never answered", endpoint: silent, request: withLongHead(get), leaves: true},
		{name: "a head that ends early", endpoint: silent, request: "GET / HTTP/1.1\r\n" + longField, leaves: true},
		{name: "a head that stalls", endpoint: silent, request: "GET / HTTP/1.1\r\n" + longField, option: withLimits(Limits{HeadTimeout: 100 * time.Millisecond})},
		{name: "a head that is too long", endpoint: silent, request: "GET / HTTP/1.1\r\n" + longField + longField},
		{name: "a head that is malformed", endpoint: silent, request: "GET / HTTP/1.1\r\n" + longField + "\n"},
		{name: "a head, and the endpoint switches protocols", endpoint: switching, request: withLongHead("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"), option: func(_ *Config, r *model.Route) { r.Upgrades = []string{"x"} }},
		{name: "both, answered", endpoint: failsOnce, request: withLongHead(post("/", long, long))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			options := []frontOption{retrying}
			if tt.option != nil {
				options = append(options, tt.option)
			}
			w := newWorkloads(t, nil, tt.endpoint(t), append(options, withMemory(1000))...)
			client := w.open(greedy, "")
			go func() { _, _ = io.WriteString(client, tt.request) }()
			if tt.leaves {
				eventually(t, "the request takes memory", func() bool { return w.proxy.MemoryUsage().By[greedy].Taken > 0 })
			} else if _, err := io.Copy(io.Discard, client); isTimeout(err) {
				t.Error("the connection has not ended")
			}
			_ = client.Close()
			w.serving.Wait()
			if got := w.proxy.MemoryUsage(); got.Taken != 0 || got.Refused != 0 {
				t.Errorf("memory when the connection has ended: %+v, want that all were given back, and no other was refused", got)
			}

			without := newWorkloads(t, nil, tt.endpoint(t), append(options, withMemory(0))...)
			client = without.open(greedy, "")
			go func() { _, _ = io.WriteString(client, tt.request) }()
			if !tt.early {
				eventually(t, "the request is refused memory", func() bool { return without.proxy.MemoryUsage().Refused > 0 })
			} else if _, err := io.Copy(io.Discard, client); isTimeout(err) {
				t.Error("the connection has not ended")
			}
			_ = client.Close()
			without.serving.Wait()
			if got := without.proxy.MemoryUsage().Taken; got != 0 {
				t.Errorf("blocks that are taken of a table without any: %d", got)
			}
		})
	}
}

func TestTheCommonRequestTakesNoMemoryThatIsShared(t *testing.T) {
	for _, tt := range []struct{ name, request string }{
		{"no body", lastGet},
		{"a head of 4 KiB", strings.Replace(lastGet, "Host", "X: "+strings.Repeat("x", 4<<10-len(lastGet)-5)+"\r\nHost", 1)},
		{"a body of 4 KiB", post("/", 4<<10, 4<<10)},
		{"several requests at once", strings.Repeat(get, 200) + lastGet},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorkloads(t, nil, echoing(t), retrying, withMemory(0))
			client := w.open(greedy, "")
			go func() { _, _ = io.WriteString(client, tt.request) }()
			answer, err := io.ReadAll(client)
			if isTimeout(err) || !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") || strings.Contains(string(answer), " 503 ") {
				t.Errorf("got %.100q, %v", answer, err)
			}
			if got := w.proxy.MemoryUsage().Refused; got != 0 {
				t.Errorf("%d blocks of memory were refused, want none", got)
			}
		})
	}
}

// A response, or a tunnel, may last for hours.
func TestABodyIsNotKeptWhileItsAnswerLasts(t *testing.T) {
	w := newWorkloads(t, nil, httpEndpoint(t, func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
	}), retrying, withMemory(1000))
	client := w.open(greedy, withLongHead(post("/", 100000, 100000)))
	if got := readHeadOf(bufio.NewReader(client)); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
		t.Fatalf("got %q", got)
	}
	eventually(t, "the head that was read is all that is kept", func() bool { return w.proxy.MemoryUsage().Taken == 3 })
	_ = client.Close()
}

// answer is that to a request of a workload, on a connection of its own.
func (w *workloads) answer(of workload.ID, request string) string {
	w.t.Helper()
	client := w.open(of, "")
	go func() { _, _ = io.WriteString(client, request) }()
	answer, err := io.ReadAll(client)
	if isTimeout(err) {
		w.t.Error("the connection has not ended")
	}
	return string(answer)
}

func TestAWorkloadHasAsMuchMemoryForRequestsAsIsLeftFree(t *testing.T) {
	const blocks, body = 256, 100000
	w := newWorkloads(t, nil, failsOnce(t), retrying, withMemory(blocks))
	w.proxy.Join(greedy, greedy)
	w.proxy.Join(modest, modest)
	var clients []net.Conn
	for !w.refusesMemory(greedy) {
		taken := w.proxy.MemoryUsage().Taken
		client := w.open(greedy, "")
		clients = append(clients, client)
		go func() { _, _ = io.WriteString(client, post("/slow", body+1, body)) }()
		eventually(t, "the body is kept, or refused", func() bool {
			now := w.proxy.MemoryUsage()
			return now.Refused > 0 || now.Taken >= taken+body/h1.BlockSize
		})
	}
	// What was refused it has given back: room for a short one at most.
	clients = append(clients, w.fillWithHeads(greedy)...)
	if got := w.proxy.MemoryUsage().By[greedy].Taken; got < blocks/2-blocksOfHead || got > blocks/2 {
		t.Errorf("blocks of one that takes all it can: got %d, want %d", got, blocks/2)
	}
	const unavailable, served = "HTTP/1.1 503 Service Unavailable\r\n", "HTTP/1.1 200 OK\r\n"
	for _, tt := range []struct {
		name    string
		of      workload.ID
		request string
		want    string
		body    string
	}{
		{"a body of the greedy one is not sent again", greedy, post("/1", body, body), unavailable, ""},
		{"a short one is", greedy, post("/2", 100, 100), served, ""},
		{"a long head of its is refused", greedy, withLongHead(lastGet), unavailable, "envoy overloaded"},
		{"another's body is sent again", modest, post("/3", body, body), served, ""},
		{"its long head is served", modest, withLongHead(lastGet), served, ""},
		{"both are served of the host", workload.Host, withLongHead(post("/4", body, body)), served, ""},
	} {
		if got := w.answer(tt.of, tt.request); !strings.HasPrefix(got, tt.want) || !strings.HasSuffix(got, tt.body) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := w.proxy.MemoryUsage(); got.By[modest].Refused != 0 || got.By[workload.Host].Refused != 0 || got.By[greedy].Refused == 0 {
		t.Errorf("usage: %+v, want that the greedy one alone was refused any", got)
	}
	closeAll(clients)
	w.serving.Wait()
	if got := w.proxy.MemoryUsage().Taken; got != 0 {
		t.Errorf("blocks when all have ended: %d, want none", got)
	}
	if got := w.answer(greedy, withLongHead(post("/5", body, body))); !strings.HasPrefix(got, served) {
		t.Errorf("behind them: got %q, want %q", got, served)
	}
}

func (w *workloads) refusesMemory(of workload.ID) bool {
	return w.proxy.MemoryUsage().By[of].Refused > 0
}

// fillWithHeads has a workload begin heads until one is refused.
func (w *workloads) fillWithHeads(of workload.ID) (clients []net.Conn) {
	w.t.Helper()
	refused := w.proxy.MemoryUsage().By[of].Refused
	for w.proxy.MemoryUsage().By[of].Refused == refused {
		before := w.proxy.MemoryUsage()
		clients = append(clients, w.open(of, "GET / HTTP/1.1\r\nX: "+strings.Repeat("x", 5<<10)))
		eventually(w.t, "the head has room, or was refused", func() bool {
			now := w.proxy.MemoryUsage()
			return now.Taken >= before.Taken+blocksOfHead || now.Refused > before.Refused
		})
	}
	return clients
}

// The host alone takes nothing from others.
func TestMemoryIsBoundedWhileWorkloadsShareIt(t *testing.T) {
	table := quota.New[workload.ID](1000, 1)
	table.SetSize(2)
	w := newWorkloads(t, nil, failsOnce(t), retrying, func(c *Config, _ *model.Route) { c.Memory = table })
	request := withLongHead(post("/1", 100000, 100000))
	if got := w.answer(workload.Host, request); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
		t.Errorf("the host alone got %q", got)
	}
	w.proxy.Join(greedy, greedy)
	if got := w.answer(workload.Host, request); !strings.HasPrefix(got, "HTTP/1.1 503 ") {
		t.Errorf("the host beside another got %q", got)
	}
	w.proxy.Leave(greedy)
	if got := w.answer(workload.Host, request); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
		t.Errorf("the host alone again got %q", got)
	}
}

// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/test/await"
)

// many is a Source whose dump is large.
type many struct {
	state
	config *model.Config
}

func (m *many) Config() Config { return Config{Version: "1", Model: m.config} }

// manyRoutes has a dump of some megabytes.
func manyRoutes(n int) *many {
	out := &many{config: (&state{}).Config().Model}
	routes := out.config.Listeners[0].Routes.VirtualHosts[0]
	for i := range n {
		routes.Routes = append(routes.Routes, &model.Route{
			Path: matcher.PathMatch{Kind: matcher.PathExact, Value: fmt.Sprintf("/%s/%d", strings.Repeat("x", 200), i)}, Clusters: []model.WeightedCluster{{Name: "web", Weight: 1}},
		})
	}
	return out
}

// stream is a transport of one connection with small windows, so that what is not read stays with the server.
func stream(t *testing.T) *http.Transport {
	t.Helper()
	transport := overHTTP2(t)
	transport.MaxConnsPerHost = 1
	transport.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 64 << 10, StrictMaxConcurrentRequests: true}
	return transport
}

func dumpSize(handler http.Handler) uint64 {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/config_dump", http.NoBody))
	return uint64(w.Body.Len())
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Memory does not depend on how many ask for the configuration, and read nothing of it.
func TestDumpsForManyTakeTheMemoryOfFew(t *testing.T) {
	const connections, streams = 4, 100
	handler := NewHandler(manyRoutes(3000), http.NotFoundHandler())
	size := dumpSize(handler)
	if size < 1<<20 {
		t.Fatalf("the dump has %d bytes", size)
	}
	address := begin(t, handler)
	before := heap()
	var answered atomic.Int32
	var asking sync.WaitGroup
	var bodies sync.Map
	for range connections {
		client := &http.Client{Transport: stream(t)}
		for range streams {
			asking.Go(func() {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/config_dump", http.NoBody)
				if err != nil {
					return
				}
				answer, err := client.Do(request)
				answered.Add(1)
				if err == nil {
					bodies.Store(answer.Body, nil)
				}
			})
		}
	}
	t.Cleanup(func() {
		bodies.Range(func(body, _ any) bool { body.(io.Closer).Close(); return true })
		asking.Wait()
	})
	// Half of as many as the server takes at once: some wait, since what others leave unread fills the connection.
	await.Quiet(t, func() string {
		if n := answered.Load(); n < int32(connections*limits.Admin.Streams/2) {
			return fmt.Sprintf("%d have begun to read", n)
		}
		return ""
	})
	if used := heap() - before; used > (maxSheets+3)*size {
		t.Errorf("%d requests take %d kB, %d dumps of %d kB each", connections*streams, used>>10, used/size, size>>10)
	}
	// Who asks waits for a page no longer than startTime, which may pass on a machine with other work.
	await.OneOfThree(t, "a page for another one", func() string { return getDump(address, size) })
}

// getDump asks for the configuration, and tells what is wrong with the answer.
func getDump(address string, size uint64) (difference string) {
	client := &http.Client{Timeout: await.Patience}
	answer, err := client.Get("http://" + address + "/config_dump")
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	n, err := io.Copy(io.Discard, answer.Body)
	if answer.StatusCode == http.StatusOK && uint64(n) == size && err == nil {
		return ""
	}
	return fmt.Sprintf("got %d, %d bytes, %v", answer.StatusCode, n, err)
}

// A connection has no more requests under way than it may, whatever its client was told.
func TestStreamsOfAConnectionAreBounded(t *testing.T) {
	const asked = 100
	var now, most atomic.Int32
	answer := make(chan struct{})
	address := begin(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		most.Store(max(most.Load(), now.Add(1)))
		<-answer
		now.Add(-1)
	}))
	defer close(answer)
	c := send(t, address, http2.ClientPreface)
	framer := http2.NewFramer(c, c)
	var head bytes.Buffer
	fields := hpack.NewEncoder(&head)
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "localhost"}, {":path", "/"}} {
		if err := fields.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: true}); err != nil {
			t.Fatal(err)
		}
	}
	err := framer.WriteSettings()
	for i := range asked {
		err = errors.Join(err, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: head.Bytes(), EndStream: true, EndHeaders: true}))
	}
	if err != nil {
		t.Fatal(err)
	}
	patient(t, c)
	for refused := 0; refused < asked-limits.Admin.Streams; {
		f, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("%d requests under way, %d refused: %v", now.Load(), refused, err)
		}
		if f.Header().Type == http2.FrameRSTStream {
			refused++
		}
	}
	await.Quiet(t, func() string {
		if n := now.Load(); n < int32(limits.Admin.Streams) {
			return fmt.Sprintf("%d are under way", n)
		}
		return ""
	})
	if n := most.Load(); n > int32(limits.Admin.Streams) {
		t.Errorf("%d requests were under way at once, want at most %d", n, limits.Admin.Streams)
	}
}

// Who asks for a page gets one that was begun after that, made once for all who wait.
func TestPagesAreSharedAndNeverOld(t *testing.T) {
	var made atomic.Int32
	begun, goOn := make(chan struct{}), make(chan struct{})
	p := newPress(target)
	page := p.of(func(w http.ResponseWriter, _ *http.Request) {
		n := made.Add(1)
		if n == 1 {
			close(begun)
			<-goOn
		}
		fmt.Fprintf(w, "%d", n)
	})
	ask := func() string {
		w := httptest.NewRecorder()
		page(w, httptest.NewRequest(http.MethodGet, "/a?b", http.NoBody))
		return w.Body.String()
	}
	var first string
	var asking sync.WaitGroup
	asking.Go(func() { first = ask() })
	<-begun
	const others = 20
	var got [others]string
	for i := range got {
		asking.Go(func() { got[i] = ask() })
	}
	await.Quiet(t, func() string {
		p.mu.Lock()
		defer p.mu.Unlock()
		if s := p.next["/a?b"]; s == nil || len(s.readers) < others {
			return fmt.Sprintf("few wait: %v", s)
		}
		return ""
	})
	close(goOn)
	asking.Wait()
	if n := made.Load(); n != 2 || first != "1" {
		t.Errorf("the page was made %d times for %d who waited, and the first got %q", n, others, first)
	}
	for _, text := range got {
		if text != "2" {
			t.Errorf("one got page %q, want that which was begun after it had asked", text)
		}
	}
	if len(p.held) != 0 || len(p.next) != 0 {
		t.Errorf("%d pages are kept", len(p.held)+len(p.next))
	}
}

// Who reads slowly keeps no page from others, however many of them there are; a page that fails does not either.
func TestSlowReadersOfPagesKeepNobodyOut(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 16<<20) // more than sockets take
	p := newPress(target)
	address := begin(t, p.of(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/fails":
			panic(http.ErrAbortHandler)
		case "/short":
			_, _ = io.WriteString(w, "short")
		default:
			_, _ = w.Write(body)
		}
	}))
	for i := range 2 * maxSheets {
		send(t, address, fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n", i))
	}
	send(t, address, "GET /fails HTTP/1.1\r\nHost: localhost\r\n\r\n")
	await.Quiet(t, func() string {
		client := &http.Client{Timeout: await.Patience}
		answer, err := client.Get("http://" + address + "/short")
		if err != nil {
			return err.Error()
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		if string(text) != "short" {
			return fmt.Sprintf("got %d %.80q", answer.StatusCode, text)
		}
		return ""
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.held) > maxSheets {
		t.Errorf("%d pages are kept, want at most %d", len(p.held), maxSheets)
	}
}

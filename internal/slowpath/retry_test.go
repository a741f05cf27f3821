// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
)

// What a policy does to whole requests is compared with Envoy in test/e2e; here is what takes a hand on the clock or on the client.

func retried(p model.Retry) frontOption {
	p.Base, p.Max = max(p.Base, time.Millisecond), max(p.Max, 10*time.Millisecond)
	return func(_ *Config, r *model.Route) { r.Retry = &p }
}

// failingFirst answers 503 when the first request's head and that much of its body are there, and serves the others.
func failingFirst(heads *atomic.Int32, body int64) func(net.Conn, *bufio.Reader) {
	return func(conn net.Conn, r *bufio.Reader) {
		for {
			request, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			if heads.Add(1) == 1 {
				_, _ = io.CopyN(io.Discard, request.Body, body)
				_, _ = io.WriteString(conn, "HTTP/1.1 503 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
				return
			}
			body, err := io.ReadAll(request.Body)
			if err != nil {
				return
			}
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}
	}
}

func TestRetryGoesOnWithABodyThatIsStillComing(t *testing.T) {
	const first = 5000
	// Where the endpoint has read all that there is, the first attempt waits for the client when the second begins.
	for _, c := range []struct {
		chunked bool
		read    int64
	}{{false, 0}, {false, first}, {true, 0}, {true, first}} {
		t.Run(fmt.Sprintf("chunked %t, %d bytes read", c.chunked, c.read), func(t *testing.T) {
			var heads atomic.Int32
			f := newFront(t, list(rawEndpoint(t, failingFirst(&heads, c.read))), retried(model.Retry{On: model.RetryOn5xx, Retries: 1}))
			pieces := []string{strings.Repeat("a", first), strings.Repeat("b", first), "c"}
			reader, writer := io.Pipe()
			request, _ := http.NewRequest(http.MethodPost, "http://a/", reader)
			if !c.chunked {
				request.ContentLength = 2*first + 1
			}
			go func() {
				_, _ = io.WriteString(writer, pieces[0])
				// The first attempt has failed, and its sender waits for more, before the rest comes.
				for end := time.Now().Add(patience); heads.Load() < 2 && time.Now().Before(end); {
					time.Sleep(time.Millisecond)
				}
				if heads.Load() < 2 {
					t.Error("the second attempt waits for the client")
				}
				_, _ = io.WriteString(writer, pieces[1])
				_, _ = io.WriteString(writer, pieces[2])
				_ = writer.Close()
			}()
			resp, err := f.client().Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != http.StatusOK || string(body) != strings.Join(pieces, "") {
				t.Errorf("got %d with %d bytes, %v: %.200q", resp.StatusCode, len(body), err, body)
			}
		})
	}
}

func TestRetryKeepsAwayFromEndpointsThatWereTried(t *testing.T) {
	bad, good := saying(t, "HTTP/1.1 503 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"), saying(t, ok2)
	policy := model.Retry{On: model.RetryOn5xx, Retries: 1, AvoidPrevious: true}
	// The one after the last bad one in the balancer's turn is bad again.
	f := newFront(t, list(bad, bad, good), retried(policy))
	for i := range 6 {
		if got := f.exchange(strings.Replace(get, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1)); !strings.HasPrefix(got, "HTTP/1.1 200") {
			t.Fatalf("request %d: %q", i, got)
		}
	}
	alone := newFront(t, list(bad), retried(policy))
	alone.exchange(strings.Replace(get, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1))
	if picked, _ := alone.balancer.seen(); picked != 2 {
		t.Errorf("attempts where there is no other endpoint: got %d, want 2", picked)
	}
}

func TestRetriesAtATimeAreBounded(t *testing.T) {
	const requests, maxRetries = 5, 3
	firstCome, held := make(chan struct{}), make(chan struct{})
	var seen atomic.Int32
	endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		if readHeadOf(r) == "" {
			return
		}
		wait := firstCome
		switch n := seen.Add(1); {
		case n == requests:
			close(firstCome)
		case n > requests:
			wait = held // a retry, which counts until it is answered
		}
		select {
		case <-wait:
		case <-time.After(patience):
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 503 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	})
	f := newFront(t, list(endpoint), retried(model.Retry{On: model.RetryOn5xx, Retries: 1}))
	answers := make(chan string, requests)
	for range requests {
		go func() { answers <- f.exchange(strings.Replace(get, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1)) }()
	}
	for range requests - maxRetries {
		<-answers
	}
	eventually(t, "as many retries as there may be are under way", func() bool { return seen.Load() == requests+maxRetries })
	close(held)
	for range maxRetries {
		<-answers
	}
	if got, want := f.proxy.Counters().Flag(FlagUpstreamOverflow), uint64(requests-maxRetries); got != want {
		t.Errorf("requests that were not sent again for that: got %d, want %d", got, want)
	}
	if got, want := f.proxy.Counters().Flag(FlagRetryLimit), uint64(maxRetries); got != want {
		t.Errorf("requests whose retries were exhausted: got %d, want %d", got, want)
	}
}

func TestClientThatLeavesDuringAWaitEndsTheRequest(t *testing.T) {
	var heads atomic.Int32
	f := newFront(t, list(rawEndpoint(t, failingFirst(&heads, 0))),
		retried(model.Retry{On: model.RetryOn5xx, Retries: 1, Base: time.Hour, Max: time.Hour}))
	conn := f.dial()
	_, _ = io.WriteString(conn, get)
	eventually(t, "the first attempt", func() bool { return heads.Load() == 1 })
	_ = conn.Close()
	eventually(t, "the request has ended", func() bool { return f.proxy.Counters().Flag(FlagDownstreamTermination) == 1 })
	if heads.Load() != 1 {
		t.Error("sent again")
	}
}

// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/upstream"
)

// resumedCase is a request that the fast path has sent, and what came of it.
type resumedCase struct {
	name string
	// answer is what the endpoint has sent, or the connection is lost. hold leaves the connection open behind it.
	answer string
	lost   bool
	hold   bool
	policy *model.Retry
	// cluster that the attempt went to; empty is that of the route.
	cluster  string
	request  string
	within   time.Duration
	want     int
	reusable bool
	// sent by the proxy, attempts.
	sent int32
}

func TestRequestThatHasBegunGoesOn(t *testing.T) {
	const bad, good = "HTTP/1.1 503 X\r\nContent-Length: 2\r\n\r\nno", okLine + "Content-Length: 2\r\n\r\nok"
	again := &model.Retry{On: model.RetryOn5xx, Retries: 1, Base: time.Millisecond, Max: time.Millisecond}
	tests := []resumedCase{
		{name: "withheld", answer: bad, hold: true, policy: again, want: 200, reusable: true, sent: 1},
		{name: "withheld, not whole", answer: "HTTP/1.1 503 X\r\nContent-Length: 3\r\n\r\nno", hold: true, policy: again, want: 200, sent: 1},
		{name: "withheld, in chunks", answer: "HTTP/1.1 503 X\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n", hold: true, policy: again, want: 200, reusable: true, sent: 1},
		{name: "withheld, and closes", answer: "HTTP/1.1 503 X\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno", hold: true, policy: again, want: 200, sent: 1},
		{name: "bytes behind the answer", answer: bad + "HTTP/1.1", hold: true, policy: again, want: 200, sent: 1},
		{name: "with a body", answer: bad, hold: true, policy: again, request: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody", want: 200, reusable: true, sent: 1},
		{name: "with a chunked body", answer: bad, hold: true, policy: again, request: "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", want: 200, reusable: true, sent: 1},
		{name: "nothing wrong with it", answer: good, hold: true, policy: again, want: 200, reusable: true},
		{name: "behind an interim response", answer: "HTTP/1.1 103 X\r\n\r\n" + bad, hold: true, policy: again, want: 503, reusable: true},
		{name: "no retries left", answer: bad, hold: true, policy: &model.Retry{On: model.RetryOn5xx}, want: 503, reusable: true},
		{name: "the policy has gone", answer: bad, hold: true, want: 503, reusable: true},
		{name: "the route has gone", answer: bad, hold: true, policy: again, cluster: "another", want: 503, reusable: true},
		{name: "no HTTP", answer: "garbage\r\n\r\n", hold: true, policy: again, want: 200, sent: 1},
		{name: "an end in place of an answer", policy: again, want: 200, sent: 1},
		{name: "lost", lost: true, policy: again, want: 200, sent: 1},
		{name: "lost, and not concerned", lost: true, policy: &model.Retry{On: model.RetryOnStatusCodes, Retries: 1, StatusCodes: []int{503}}, want: 503},
		{name: "no answer in time", hold: true, policy: again, within: 50 * time.Millisecond, want: 504},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.play(t)
		})
	}
}

func (c *resumedCase) play(t *testing.T) {
	var sent, bodies atomic.Int32
	endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		for {
			request, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			body, _ := io.ReadAll(request.Body)
			sent.Add(1)
			bodies.Add(int32(len(body)))
			_, _ = fmt.Fprintf(conn, "%sContent-Length: 2\r\n\r\nok", okLine)
		}
	})
	f := newFront(t, list(endpoint), func(_ *Config, r *model.Route) { r.Retry = c.policy })
	if c.request == "" {
		c.request = get
	}
	if c.cluster == "" {
		c.cluster = "c"
	}
	var ends []bool
	first := &fakePick{balancer: f.balancer, address: endpoint}
	lease, ended := context.WithCancel(t.Context())
	defer ended()
	attempt := &Attempt{Cluster: model.SharedCluster(c.cluster), Endpoint: first}
	if !c.lost {
		near, far := tcpPair(t)
		_, _ = io.WriteString(far, c.answer)
		if !c.hold {
			_ = conns.CloseWrite(far)
		}
		conn := upstream.New(near.(upstream.TCP))
		eventually(t, "the answer is there", func() bool { return !conn.Quiet() || c.answer == "" })
		attempt.Conn, attempt.OnLoss = conn, func(f func()) func() bool { return context.AfterFunc(lease, f) }
		attempt.End = func(end AttemptEnd) {
			ends = append(ends, end.Reusable)
			if end.Reusable && end.Received != uint64(len(c.answer)) {
				t.Errorf("received: got %d, want %d", end.Received, len(c.answer))
			}
			if withheld := strings.HasPrefix(c.name, "withheld") || c.sent > 0 && strings.HasPrefix(c.answer, "HTTP/1.1 503"); end.Withheld != withheld {
				t.Errorf("withheld: got %t, want %t", end.Withheld, withheld)
			}
		}
	}
	resumed := &ResumedRequest{Request: c.request, Began: time.Now(), Attempt: attempt}
	if c.within > 0 {
		resumed.Deadline = time.Now().Add(c.within)
	}
	client, server := net.Pipe()
	defer client.Close()
	served := make(chan Result, 1)
	go func() {
		r, _ := f.proxy.Serve(t.Context(), server, Session{Listener: "l", Resumed: resumed})
		served <- r
	}()
	answers := bufio.NewReader(client)
	resp, err := http.ReadResponse(answers, nil)
	for err == nil && resp.StatusCode < 200 {
		resp, err = http.ReadResponse(answers, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	if r := waitFor(t, "the end of the call", served); !r.Quiet || r.Consumed != 0 || r.Requests != 1 {
		t.Errorf("result: got %+v, want a quiet connection of which nothing was read", r)
	}
	if resp.StatusCode != c.want || sent.Load() != c.sent {
		t.Errorf("got %d behind %d more attempts, want %d behind %d", resp.StatusCode, sent.Load(), c.want, c.sent)
	}
	if strings.Contains(c.request, "body") && bodies.Load() != 4*c.sent {
		t.Errorf("%d bytes of bodies, want %d", bodies.Load(), 4*c.sent)
	}
	wantEnds := []bool{c.reusable}
	if c.lost {
		wantEnds = nil
	}
	if diff := cmp.Diff(wantEnds, ends); diff != "" {
		t.Errorf("ends of the connection (-want +got):\n%s", diff)
	}
	if !first.done {
		t.Error("the first endpoint still counts as busy")
	}
}

// An attempt that the proxy does not come to, because it closes, is given up all the same.
func TestAttemptIsGivenUpWhereNobodyServes(t *testing.T) {
	f := newFront(t, nil)
	f.proxy.Close()
	near, _ := tcpPair(t)
	ends := 0
	first := &fakePick{balancer: f.balancer}
	client, server := net.Pipe()
	defer client.Close()
	resumed := &ResumedRequest{Request: get, Attempt: &Attempt{
		Cluster: model.SharedCluster("c"), Endpoint: first, Conn: upstream.New(near.(upstream.TCP)), End: func(AttemptEnd) { ends++ },
	}}
	if _, err := f.proxy.Serve(t.Context(), server, Session{Resumed: resumed}); err == nil || ends != 1 || !first.done {
		t.Errorf("got %v, %d ends, endpoint done %v", err, ends, first.done)
	}
}

// A client that leaves while its attempt's answer is awaited takes the attempt with it: it is not sent again.
func TestAttemptEndsWithItsClient(t *testing.T) {
	t.Parallel()
	f := newFront(t, list(rawEndpoint(t, func(net.Conn, *bufio.Reader) { t.Error("sent again") })), func(_ *Config, r *model.Route) {
		r.Retry = &model.Retry{On: model.RetryOn5xx, Retries: 3}
	})
	near, _ := tcpPair(t)
	lease, leave := context.WithCancel(t.Context())
	waits, ends := make(chan struct{}), make(chan bool, 2)
	first := &fakePick{balancer: f.balancer}
	client, server := net.Pipe()
	defer client.Close()
	resumed := &ResumedRequest{Request: get, Began: time.Now(), Attempt: &Attempt{
		Cluster: model.SharedCluster("c"), Endpoint: first, Conn: upstream.New(near.(upstream.TCP)),
		OnLoss: func(f func()) func() bool {
			defer close(waits)
			return context.AfterFunc(lease, f)
		},
		End: func(end AttemptEnd) { ends <- end.Reusable },
	}}
	served := make(chan Result, 1)
	go func() {
		r, _ := f.proxy.Serve(t.Context(), server, Session{Listener: "l", Resumed: resumed})
		served <- r
	}()
	<-waits
	leave()
	if r := waitFor(t, "the end of the call", served); r.Quiet || r.Answered > 0 {
		t.Errorf("result: got %+v, want the connection to end without an answer", r)
	}
	if waitFor(t, "the end of the attempt", ends) {
		t.Error("the connection is to be used again")
	}
	if len(ends) > 0 || !first.done {
		t.Errorf("%d more ends, endpoint done: %v", len(ends), first.done)
	}
}

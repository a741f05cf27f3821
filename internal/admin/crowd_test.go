// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xlb-project/xlb/internal/limits"
)

// hall is a listener in a bubble of synctest, whose clock moves when all goroutines wait: no machine is too slow for a bound. Connections wait to be
// accepted, in the order of arrival.
type hall struct {
	arrivals chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

// openHall serves a handler until the test ends.
func openHall(t *testing.T, handler http.HandlerFunc) *hall {
	t.Helper()
	h := &hall{arrivals: make(chan net.Conn), closed: make(chan struct{})}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, h, nil, handler, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *hall) Accept() (net.Conn, error) {
	select {
	case c := <-h.arrivals:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *hall) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

func (h *hall) Addr() net.Addr { return &net.TCPAddr{} }

func (h *hall) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case h.arrivals <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// askPace is how often a busy client asks: it is never idle for sentTime.
const askPace = 40 * time.Millisecond

// client has one connection, and opens another when that ends.
func (h *hall) client(http2 bool) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: h.dial, MaxConnsPerHost: 1, Protocols: protocols}}
}

// crowd are busy clients.
type crowd struct {
	hall  *hall
	http2 bool
	end   chan struct{}
	lost  atomic.Int32 // requests without an answer
	all   sync.WaitGroup
}

func newCrowd(t *testing.T, h *hall, http2 bool) *crowd {
	t.Helper()
	c := &crowd{hall: h, http2: http2, end: make(chan struct{})}
	t.Cleanup(func() {
		close(c.end)
		c.all.Wait()
	})
	return c
}

// joins has one more client ask until the test ends, and reports its first answer.
func (c *crowd) joins() (answered chan error) {
	answered = make(chan error, 1)
	client := c.hall.client(c.http2)
	c.all.Go(func() {
		defer client.CloseIdleConnections()
		pace := time.NewTicker(askPace)
		defer pace.Stop()
		answered <- askReady(client)
		for {
			select {
			case <-c.end:
				return
			case <-pace.C:
				if err := askReady(client); err != nil {
					c.lost.Add(1)
				}
			}
		}
	})
	return answered
}

// fill has as many clients ask as there is room for.
func (c *crowd) fill(t *testing.T) {
	t.Helper()
	for range limits.Admin.Connections {
		if err := <-c.joins(); err != nil {
			t.Fatal(err)
		}
	}
}

func askReady(client *http.Client) error {
	answer, err := client.Get("http://localhost/ready")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

func live(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "LIVE\n") }

// Clients that ask often on all connections leave room for newcomers, and lose no answer for it.
func TestBusyConnectionsLeaveRoomForOthers(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP/2 %t", http2), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := openHall(t, live)
				busy := newCrowd(t, h, http2)
				busy.fill(t)
				for i := range 5 {
					client := h.client(false)
					client.Timeout = time.Second
					if err := askReady(client); err != nil {
						t.Errorf("newcomer %d: %v", i, err)
					}
					client.CloseIdleConnections()
				}
				if n := busy.lost.Load(); n > 0 {
					t.Errorf("%d requests of busy clients have no answer", n)
				}
			})
		})
	}
}

// Newcomers come in one by one, and have waited together: the bound is not theirs one after another.
func TestNewcomersOfACrowdWaitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const newcomers = 50
		h := openHall(t, live)
		busy := newCrowd(t, h, false)
		busy.fill(t)
		began := time.Now()
		var answered []chan error
		for range newcomers {
			answered = append(answered, busy.joins())
		}
		for i, a := range answered {
			if err := <-a; err != nil {
				t.Errorf("newcomer %d: %v", i, err)
			}
		}
		if took, bound := time.Since(began), crowdTime+newcomers*askPace; took > bound {
			t.Errorf("all have come in after %v, want %v at most", took, bound)
		}
	})
}

// The oldest connection gives way, behind an answer that says so; the others stay.
func TestOldestGivesWayInACrowd(t *testing.T) {
	before := limits.Admin
	limits.Admin.Connections = 3
	t.Cleanup(func() { limits.Admin = before })
	synctest.Test(t, func(t *testing.T) {
		h := openHall(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				time.Sleep(servedTime - sentTime)
			}
			live(w, r)
		})
		type end struct {
			name string
			err  error
		}
		ends := make(chan end, 5)
		var open []net.Conn
		for _, name := range []string{"slow", "second", "third", "fourth", "fifth"} {
			c, err := h.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, c)
			answered := make(chan struct{}, 1)
			go func() { ends <- end{name, askUntilLast(c, name, answered)} }()
			select {
			case <-answered:
			case <-time.After(2 * leaveTime):
				t.Fatalf("%s is not answered", name)
			}
		}
		for _, want := range []string{"slow", "second"} {
			if e := <-ends; e.name != want || e.err != nil {
				t.Errorf("got the end of %s, %v; want that of %s", e.name, e.err, want)
			}
		}
		if n := len(ends); n > 0 {
			t.Errorf("%d more connections have ended", n)
		}
		for _, c := range open {
			c.Close()
		}
		for range 3 {
			<-ends
		}
	})
}

// askUntilLast asks at askPace, until an answer says that it is the connection's last, and waits for the end behind that.
func askUntilLast(c net.Conn, name string, answered chan<- struct{}) error {
	pace := time.NewTicker(askPace)
	defer pace.Stop()
	for r := bufio.NewReader(c); ; <-pace.C {
		if _, err := fmt.Fprintf(c, "GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n", name); err != nil {
			return err
		}
		answer, err := http.ReadResponse(r, nil)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			return err
		}
		select {
		case answered <- struct{}{}:
		default:
		}
		if answer.Close {
			if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
				return fmt.Errorf("behind the last answer: %w", err)
			}
			return nil
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package handback

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/pool"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/test/mapstest"
)

// pipedTCP is the daemon's end of a connection in memory.
type pipedTCP struct{ net.Conn }

func (pipedTCP) CloseWrite() error                     { return nil }
func (pipedTCP) SetLinger(int) error                   { return nil }
func (pipedTCP) SyscallConn() (syscall.RawConn, error) { return nil, errors.ErrUnsupported }

// unjudged is a Health that learns nothing.
type unjudged struct{}

func (unjudged) Lost(pool.Lost)                       {}
func (unjudged) Relayed(uint32, slowpath.RelayResult) {}
func (unjudged) Attempted(uint32, slowpath.Outcome)   {}

// Behind an answer that does not say that the connection ends, a client sends its next request on it. So each answer says so behind which it does
// end, also where the last byte of the request is framed, and the send that moves it falls short or is held up.
func TestAnswerBehindWhichTheConnectionEndsSaysSo(t *testing.T) {
	lease := maps.Lease{Slot: 0, Number: 7}
	const request, send = maps.PendingRequest, maps.PendingSend
	const closes = "HTTP/1.0 501 Not Implemented\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno"
	for _, tt := range []struct {
		name, answer string
		pending      maps.Pending
		// behind is what is pending when the client's send returns, halfway through the daemon's patience; equal to pending: it does not return.
		behind maps.Pending
		keeps  bool
	}{
		{"the request has ended", closes, 0, 0, true},
		{"the client's send is about to return", closes, send, 0, true},
		{"the client's send is about to fall short", closes, send, send | request, false},
		{"the client's send is held up", closes, send, send, false},
		{"the request is on its way", closes, request, request, false},
		{"not an answer, to a request that has ended", "nonsense\r\n\r\n", 0, 0, true},
		{"not an answer, and the client's send is about to fall short", "nonsense\r\n\r\n", send, send | request, false},
		{"not an answer, and the client's send is held up", "nonsense\r\n\r\n", send, send, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := maps.NewHeapShared(maps.Sizes{Clusters: 1, Endpoints: 1, Slots: 1})
				mapstest.Begin(shared, lease, tt.pending)
				time.AfterFunc(sendPatience/2, func() { atomic.StoreUint32(&shared.Slots[0].Pending, uint32(tt.behind)) })
				proxy := slowpath.New(slowpath.Config{})
				defer proxy.Close()
				h := New(Config{
					Shared: shared, Proxy: proxy, Health: unjudged{}, Logger: slog.New(slog.DiscardHandler),
					Generation: func() *generation.Generation { return &generation.Generation{} },
				})
				endpoint, server := net.Pipe()
				near, client := net.Pipe()
				go func() { _, _ = io.WriteString(server, tt.answer) }()
				answer := make(chan string)
				go func() {
					got, _ := io.ReadAll(client)
					answer <- string(got)
				}()
				_, outcome := h.whole(t.Context(), pool.Spilled{Lease: lease, Upstream: upstream.New(pipedTCP{endpoint})}, near)
				near.Close()
				got := <-answer
				if status := strings.HasPrefix(got, "HTTP/1.1 50"); !status || strings.Contains(got, "Connection: close\r\n") == tt.keeps {
					t.Errorf("the answer is %q, and the connection ends: %v", got, !tt.keeps)
				}
				want := anchor.Linger
				if proof, ok := shared.RequestWhole(lease); ok {
					want = anchor.Keep(proof)
				}
				if outcome != want || (want == anchor.Linger) == tt.keeps {
					t.Errorf("got %+v, want %+v", outcome, want)
				}
			})
		})
	}
}

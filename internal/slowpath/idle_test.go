// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
)

func TestRelayedResponseStandsStillForAsLongAsItsRouteAllows(t *testing.T) {
	for _, tt := range []struct {
		name                  string
		usual, idle, deadline time.Duration
		want                  string
	}{
		{"the route's", time.Hour, 100 * time.Millisecond, 0, "HTTP/1.1 504 Gateway Timeout\r\n…stream timeout"},
		{"the route's, before its timeout", time.Hour, 100 * time.Millisecond, time.Hour, "HTTP/1.1 504 Gateway Timeout\r\n…stream timeout"},
		{"the timeout before that", time.Hour, time.Hour, 100 * time.Millisecond, "HTTP/1.1 504 Gateway Timeout\r\n…upstream request timeout"},
		{"none, but a timeout", time.Millisecond, -1, 100 * time.Millisecond, "HTTP/1.1 504 Gateway Timeout\r\n…upstream request timeout"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			proxy := New(Config{Active: nothing, Limits: Limits{StreamIdle: tt.usual}})
			defer proxy.Close()
			client, ours := net.Pipe()
			upstream, endpoint := net.Pipe()
			defer func() { _ = endpoint.Close() }()
			request := RelayRequest{Method: "GET", Idle: tt.idle}
			if tt.deadline > 0 {
				request.Deadline = time.Now().Add(tt.deadline)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = proxy.Relay(context.Background(), ours, upstream, request)
				_ = upstream.Close()
			}()
			_ = client.SetDeadline(time.Now().Add(patience))
			got, _ := io.ReadAll(client)
			<-done
			head, text, _ := strings.Cut(tt.want, "…")
			if !strings.HasPrefix(string(got), head) || !strings.HasSuffix(string(got), text) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestHeadMayTakeAsLongAsItsListenerAllows(t *testing.T) {
	f := newFront(t, nil, func(c *Config, _ *model.Route) {
		activeOf(c).routes = func(string) (*model.RouteTable, bool) {
			return &model.RouteTable{HeadTimeout: 100 * time.Millisecond}, true
		}
	})
	if got := f.exchange("GET / HTTP/1.1\r\n"); !strings.HasPrefix(got, "HTTP/1.1 408 ") {
		t.Errorf("got %q", got)
	}
}

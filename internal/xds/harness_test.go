// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/xlb-project/xlb/test/await"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what has to come.
const patience = await.Patience

// observed is a client that runs, and what it has handed out.
type observed struct {
	*Client
	t *testing.T

	mu      sync.Mutex
	changed chan struct{}
	states  []string
}

// observe runs a client until the test ends.
func observe(t *testing.T, config Config) *observed {
	t.Helper()
	o := &observed{t: t, changed: make(chan struct{})}
	if config.Check == nil {
		config.Check = check
	}
	if config.Update == nil {
		config.Update = func(s Snapshot) error { o.add(text(t, s)); return nil }
	}
	if config.Logger == nil && os.Getenv("XDS_LOG") != "" {
		config.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	config.Node = &corev3.Node{Id: "test"}
	o.Client = New(config)
	o.pauses = Backoff{First: 10 * time.Millisecond, Longest: 100 * time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); o.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return o
}

func (o *observed) add(state string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.states = append(o.states, state)
	close(o.changed)
	o.changed = make(chan struct{})
}

// seen returns the states handed out so far, and a channel that is closed with the next.
func (o *observed) seen() ([]string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.states, o.changed
}

// await waits for a state to be the newest.
func (o *observed) await(want string) {
	o.t.Helper()
	deadline := time.After(patience)
	for {
		states, changed := o.seen()
		if len(states) > 0 && states[len(states)-1] == want {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			o.t.Fatalf("state %q did not come; states %q; status %+v", want, states, o.Status())
		}
	}
}

// awaitStatus waits until the status is as wanted.
func (o *observed) awaitStatus(what string, want func(Status) bool) Status {
	o.t.Helper()
	await.Quiet(o.t, func() string {
		if s := o.Status(); !want(s) {
			return fmt.Sprintf("%s: did not come; status %+v", what, s)
		}
		return ""
	})
	return o.Status()
}

// lines keep what is logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// serve runs a gRPC server until the test ends.
func serve(t *testing.T, service discoveryv3.AggregatedDiscoveryServiceServer) Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, l, service)
}

func serveOn(t *testing.T, l net.Listener, service discoveryv3.AggregatedDiscoveryServiceServer) Server {
	s := grpc.NewServer(grpc.MaxSendMsgSize(1 << 30))
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, service)
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return Server{Address: l.Addr().String()}
}

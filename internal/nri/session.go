// SPDX-License-Identifier: Apache-2.0

package nri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/containerd/ttrpc"

	"github.com/xlb-project/xlb/internal/limits"
)

// The plugin's name and index. A runtime calls plugins in the order of their indices, which have two digits: those that observe come behind those that change
// containers.
const (
	pluginName  = "xlb"
	pluginIndex = "90"
)

// Why a connection has ended.
var (
	errClosed = errors.New("the runtime has closed the connection")
	errFull   = errors.New("too many events of pods wait to be worked on; another connection brings all pods anew")
)

// session is one connection to a runtime.
type session struct {
	client *Client
	stub   stub.Stub
	// end ends it, with a reason. The first one counts.
	end context.CancelCauseFunc
	// configured is closed by configuredOnce, when the runtime has said who it is.
	configured     chan struct{}
	configuredOnce sync.Once
	// isOver: the connection has ended. What the library goes on to deliver of it counts no more: the next connection may have brought all pods anew. It is
	// guarded by the client's mu.
	isOver bool
}

func (s *session) disconnected() {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	s.isOver, s.client.state.Connected = true, false
}

// serve connects, and returns why the connection has ended or could not be made. Nothing of it is left then.
func (c *Client) serve(parent context.Context) error {
	ctx, end := context.WithCancelCause(parent)
	defer end(nil)
	conn, err := dial(ctx, c.cfg.Socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	s := &session{client: c, end: end, configured: make(chan struct{})}
	if s.stub, err = s.newStub(conn); err != nil {
		return err
	}
	// What the library writes, and the runtime does not read, holds locks of the library. The end of the connection ends that.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer s.disconnected()
	end(s.stub.Run(ctx))
	s.stub.Stop()
	return reason(context.Cause(ctx))
}

// reason is one error for all by which the libraries say that a connection has closed: which of them comes first is chance.
func reason(err error) error {
	for _, closed := range []error{ttrpc.ErrClosed, ttrpc.ErrServerClosed, io.EOF, context.Canceled} {
		if errors.Is(err, closed) {
			return errClosed
		}
	}
	return err
}

func dial(ctx context.Context, socket string) (net.Conn, error) {
	d := net.Dialer{Timeout: limits.NRI.Connect}
	return d.DialContext(ctx, "unix", socket)
}

func (s *session) newStub(conn net.Conn) (stub.Stub, error) {
	// The library's own answer to a connection that has closed waits for a lock that Start holds until the runtime has configured the plugin.
	client := []ttrpc.ClientOpts{ttrpc.WithOnClose(func() { s.end(errClosed) }), ttrpc.WithUnaryClientInterceptor(s.register)}
	return stub.New(s, stub.WithPluginName(pluginName), stub.WithPluginIdx(pluginIndex), stub.WithConnection(conn), stub.WithLogger(logger{s.client.cfg.Logger}),
		// A plugin that does not answer in time is disconnected, as without a failure policy: a daemon that hangs delays one pod, not each.
		stub.WithTTRPCOptions(client, []ttrpc.ServerOpt{ttrpc.WithUnaryServerInterceptor(slim)}))
}

// slim drops what a Client does not read of a list of pods, before the library gathers its parts: who may make pods decides how much environment, and how
// many annotations, their containers have.
func slim(ctx context.Context, unmarshal ttrpc.Unmarshaler, _ *ttrpc.UnaryServerInfo, method ttrpc.Method) (any, error) {
	return method(ctx, func(message any) error {
		err := unmarshal(message)
		if list, ok := message.(*api.SynchronizeRequest); ok {
			list.Containers = nil
			for _, sandbox := range list.Pods {
				sandbox.Annotations = nil
			}
		}
		return err
	})
}

// register is around the plugin's one request to the runtime. It also waits until the runtime has configured the plugin: the library would wait for that
// without end.
func (s *session) register(ctx context.Context, request *ttrpc.Request, response *ttrpc.Response, _ *ttrpc.UnaryClientInfo, invoke ttrpc.Invoker) error {
	silent := fmt.Errorf("the runtime has not answered within %v", limits.NRI.Connect)
	ctx, cancel := context.WithTimeoutCause(ctx, limits.NRI.Connect, silent)
	defer cancel()
	err := invoke(ctx, request, response)
	if refusal := response.GetStatus(); err == nil && refusal.GetCode() != 0 {
		err = fmt.Errorf("the runtime refuses the plugin: %s", refusal.GetMessage())
	}
	if err == nil {
		select {
		case <-s.configured:
			return nil
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		// The library has a limit of its own, which is as long.
		err = silent
	}
	s.end(err)
	return err
}

// SPDX-License-Identifier: Apache-2.0

// Package nritest is the side of the Node Resource Interface that a container runtime has, for tests of XLB's.
package nritest

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/ttrpc"

	"github.com/xlb-project/xlb/test/await"
)

// LongTimeout is the runtime's time limit where it is not what the test is about.
const LongTimeout = time.Hour

// Runtime listens for plugins.
type Runtime struct {
	t        testing.TB
	listener net.Listener
}

// Listen begins to listen at a socket, which goes with the test.
func Listen(t testing.TB, socket string) *Runtime {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return &Runtime{t, l}
}

// New listens at a socket of its own, whose name is short enough for the kernel (unix(7)) whatever the test is called.
func New(t testing.TB) *Runtime {
	t.Helper()
	dir, err := os.MkdirTemp("", "nri")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return Listen(t, filepath.Join(dir, "nri.sock"))
}

// Socket is where it listens.
func (r *Runtime) Socket() string { return r.listener.Addr().String() }

// Close ends the listening, and takes the socket away.
func (r *Runtime) Close() error { return r.listener.Close() }

// Accept returns the next connection.
func (r *Runtime) Accept() net.Conn {
	r.t.Helper()
	accepted := make(chan net.Conn, 1)
	go func() {
		if c, err := r.listener.Accept(); err == nil {
			accepted <- c
		}
	}()
	c := await.Next(r.t, accepted, "a connection")
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Connection is one plugin's. Its calls are those of the runtime.
type Connection struct {
	api.PluginService
	t testing.TB
	// refusal is what the plugin's registration is answered with.
	refusal error
	// Registered has the plugin's registration, and Closed is closed with the connection.
	Registered chan *api.RegisterPluginRequest
	Closed     chan struct{}
	// Close ends the connection.
	Close func()
}

// RegisterPlugin is the plugin's request.
func (c *Connection) RegisterPlugin(_ context.Context, r *api.RegisterPluginRequest) (*api.Empty, error) {
	c.Registered <- r
	return &api.Empty{}, c.refusal
}

// UpdateContainers is another request of plugins, which an observer does not make.
func (c *Connection) UpdateContainers(context.Context, *api.UpdateContainersRequest) (*api.UpdateContainersResponse, error) {
	return nil, errors.New("an observer updates containers")
}

// Serve accepts a connection, in the order of NRI's own side of the runtime. The plugin's registration is answered with refusal; nil: it is taken.
func (r *Runtime) Serve(refusal error) *Connection {
	t := r.t
	t.Helper()
	c := &Connection{t: t, refusal: refusal, Registered: make(chan *api.RegisterPluginRequest, 1), Closed: make(chan struct{})}
	mux := multiplex.Multiplex(r.Accept(), multiplex.WithBlockedRead())
	conn, err := mux.Open(multiplex.PluginServiceConn)
	if err != nil {
		t.Fatal(err)
	}
	client := ttrpc.NewClient(conn, ttrpc.WithOnClose(func() { close(c.Closed) }))
	server, err := ttrpc.NewServer()
	if err != nil {
		t.Fatal(err)
	}
	l, err := mux.Listen(multiplex.RuntimeServiceConn)
	if err != nil {
		t.Fatal(err)
	}
	c.PluginService = api.NewPluginClient(client)
	api.RegisterRuntimeService(server, c)
	served := make(chan struct{})
	go func() {
		_ = server.Serve(context.Background(), l)
		close(served)
	}()
	c.Close = sync.OnceFunc(func() {
		_, _, _, _ = mux.Close(), client.Close(), server.Close(), l.Close()
		<-served
		<-c.Closed
	})
	t.Cleanup(c.Close)
	mux.Unblock()
	return c
}

// Connected accepts a plugin, and gives it these pods.
func (r *Runtime) Connected(timeout time.Duration, pods ...*api.PodSandbox) *Connection {
	r.t.Helper()
	c := r.Serve(nil)
	await.Next(r.t, c.Registered, "a registration")
	c.MustConfigure(timeout)
	c.MustSynchronize(pods...)
	return c
}

// MustConfigure says who the runtime is, and what its time limit for requests is.
func (c *Connection) MustConfigure(timeout time.Duration) *api.ConfigureResponse {
	c.t.Helper()
	answer, err := c.Configure(c.t.Context(), &api.ConfigureRequest{
		RuntimeName: "containerd", RuntimeVersion: "v2.3.7", NRIVersion: "v0.12.5",
		RegistrationTimeout: LongTimeout.Milliseconds(), RequestTimeout: timeout.Milliseconds(),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return answer
}

// MustSynchronize gives the plugin all pods.
func (c *Connection) MustSynchronize(pods ...*api.PodSandbox) {
	c.t.Helper()
	answer, err := c.Synchronize(c.t.Context(), &api.SynchronizeRequest{Pods: pods})
	if err != nil || len(answer.GetUpdate()) > 0 || answer.GetMore() {
		c.t.Fatalf("synchronize: got %v, %v", answer, err)
	}
}

// MustBegin reports a pod of which no container runs yet, and waits for the plugin's answer.
func (c *Connection) MustBegin(pod *api.PodSandbox) {
	c.t.Helper()
	if _, err := c.RunPodSandbox(c.t.Context(), &api.RunPodSandboxRequest{Pod: pod}); err != nil {
		c.t.Fatal(err)
	}
}

// MustStop reports that a pod's processes have ended.
func (c *Connection) MustStop(pod *api.PodSandbox) {
	c.t.Helper()
	if _, err := c.StopPodSandbox(c.t.Context(), &api.StopPodSandboxRequest{Pod: pod}); err != nil {
		c.t.Fatal(err)
	}
}

// MustRemove reports that the runtime has forgotten a pod.
func (c *Connection) MustRemove(pod *api.PodSandbox) {
	c.t.Helper()
	if _, err := c.RemovePodSandbox(c.t.Context(), &api.RemovePodSandboxRequest{Pod: pod}); err != nil {
		c.t.Fatal(err)
	}
}

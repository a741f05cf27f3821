// SPDX-License-Identifier: Apache-2.0

package nri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/containerd/log"

	"github.com/xlb-project/xlb/internal/pod"
)

// Pods takes in the pods of a container runtime, one call at a time.
type Pods interface {
	// PodsAre replaces all that it was given before: those that there are when a runtime is connected to.
	PodsAre(list []pod.Pod)
	// PodBegins takes in a pod of which no container runs yet. It may take as long as it takes to serve the pod.
	PodBegins(p pod.Pod)
	// PodEnded says that the processes of one have ended: the runtime has stopped or removed it. It is called once for each pod.
	PodEnded(sandbox string)
}

// Config is what Run needs. All fields but Optional are required.
type Config struct {
	// Socket is that of the runtime's NRI, at most 107 bytes long.
	Socket string
	// Optional says that no runtime need be there: its absence is no reason to warn.
	Optional bool
	Pods     Pods
	Logger   *slog.Logger
}

// longestSocket is the longest name that the kernel takes (unix(7): sun_path).
const longestSocket = 107

func (c *Config) check() error {
	switch {
	case c.Socket == "":
		return errors.New("NRI: there is no name of a socket; name that of the container runtime")
	case len(c.Socket) > longestSocket:
		return fmt.Errorf("NRI: the name of the socket has %d bytes, and the kernel takes %d; use a link to it with a shorter name", len(c.Socket), longestSocket)
	case c.Pods == nil || c.Logger == nil:
		return errors.New("NRI: Config needs Pods and Logger")
	}
	return nil
}

// Client is connected to a container runtime, as long as there is one. It is safe for concurrent use.
type Client struct {
	cfg   Config
	queue *queue
	pause pause
	// synchronized is closed by synchronizedOnce.
	synchronized     chan struct{}
	synchronizedOnce sync.Once

	// mu guards what follows. Events join the queue while it is held, so that the queue and sandboxes agree.
	mu    sync.Mutex
	state State
	// runtime is the name that the runtime has given itself.
	runtime string
	// sandboxes are those of the pods that Pods has, or that wait in the queue for it.
	sandboxes map[string]struct{}
	// warned is the last failure that was logged as a warning. The same one is not logged again until there has been a connection.
	warned string
}

// New makes a Client, which connects when it runs.
func New(c Config) (*Client, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	// The library of the protocol writes to standard error by itself what the Client logs.
	log.L.Logger.SetOutput(io.Discard)
	return &Client{cfg: c, queue: newQueue(), pause: pause{first: firstPause, longest: longestPause}, synchronized: make(chan struct{}), sandboxes: map[string]struct{}{}}, nil
}

// Synchronized is closed when Pods has the runtime's pods for the first time, or when the first attempt to connect has failed.
func (c *Client) Synchronized() <-chan struct{} { return c.synchronized }

func (c *Client) setSynchronized() { c.synchronizedOnce.Do(func() { close(c.synchronized) }) }

// State is that of the connection.
type State struct {
	// Connected: a runtime reports its pods. Runtime is the name and version of the last one, as "containerd 2.3.7"; it is empty before the first.
	Connected bool
	Runtime   string
	// Pods counts pods that began (RunPodSandbox), Late those for which the runtime was answered before they were served, Failed connections that ended or
	// could not be made, but not that an optional runtime is absent. Lost counts events that found the queue full; another connection makes up for them.
	// LeftOut counts pods that were not taken in, because they are too many, or have names beyond what Kubernetes takes.
	Pods, Late, Failed, Lost, LeftOut uint64
}

// State says whether a runtime is connected to, for metrics and /ready.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// steady is how long a connection lasts that has not failed: after it the next attempt comes after the first pause again.
const steady = 30 * time.Second

// Run connects, and connects again whenever the connection has ended, until ctx ends. When it has returned, no call of Pods is under way: where one is as
// ctx ends, Run waits for it.
func (c *Client) Run(ctx context.Context) {
	var worker sync.WaitGroup
	worker.Go(func() { c.queue.deliver(ctx, c.cfg.Pods) })
	defer worker.Wait()
	for {
		began := time.Now()
		err := c.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) >= steady {
			c.pause.reset()
		}
		c.failed(err)
		if !c.pause.wait(ctx) {
			return
		}
	}
}

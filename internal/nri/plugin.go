// SPDX-License-Identifier: Apache-2.0

package nri

import (
	"context"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/pod"
)

// What the runtime asks for. None of it returns an error: a pod starts with or without XLB.
var (
	_ stub.ConfigureInterface   = (*session)(nil)
	_ stub.SynchronizeInterface = (*session)(nil)
	_ stub.RunPodInterface      = (*session)(nil)
	_ stub.StopPodInterface     = (*session)(nil)
	_ stub.RemovePodInterface   = (*session)(nil)
)

// Configure takes in who the runtime is. It subscribes to all that session has a method for.
func (s *session) Configure(_ context.Context, config, runtime, version string) (stub.EventMask, error) {
	c := s.client
	if config != "" {
		c.cfg.Logger.Warn("the container runtime has a file of settings for the plugin xlb, which has none; take it away", "runtime", printable(runtime))
	}
	c.mu.Lock()
	c.runtime = printable(runtime)
	c.state.Runtime = strings.TrimSuffix(c.runtime+" "+strings.TrimPrefix(printable(version), "v"), " ")
	c.mu.Unlock()
	s.configuredOnce.Do(func() { close(s.configured) })
	return 0, nil
}

// Synchronize takes in all pods that there are. It answers at once: the runtime begins no pod meanwhile.
func (s *session) Synchronize(_ context.Context, sandboxes []*api.PodSandbox, _ []*api.Container) ([]*api.ContainerUpdate, error) {
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.isOver {
		return nil, nil
	}
	list := c.admitAll(sandboxes)
	c.queue.replace(func(to Pods) {
		to.PodsAre(list)
		c.setSynchronized()
	})
	c.state.Connected, c.warned = true, ""
	c.cfg.Logger.Info("connected to a container runtime", "runtime", c.state.Runtime, "pods", len(list), "socket", c.cfg.Socket)
	return nil, nil
}

// RunPodSandbox answers when the pod is served or left alone, and at the latest after a bound.
func (s *session) RunPodSandbox(ctx context.Context, sandbox *api.PodSandbox) error {
	done, p := s.begin(sandbox)
	if done == nil {
		return nil
	}
	timer := time.NewTimer(s.bound())
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	s.client.mu.Lock()
	s.client.state.Late++
	s.client.mu.Unlock()
	s.client.cfg.Logger.Warn("a pod starts before it is served; its first connections may not be balanced", "pod", p.Identity())
	return nil
}

// bound is how long a pod waits: so long that a busy host serves it nearly always, and so short that neither the runtime's time limit nor its user notices.
func (s *session) bound() time.Duration {
	if limit := s.stub.RequestTimeout(); limit > 0 {
		return min(limits.NRI.Whole, limit/2)
	}
	return limits.NRI.Whole
}

// begin has the pod served. done is nil where there is nothing to wait for.
func (s *session) begin(sandbox *api.PodSandbox) (done <-chan struct{}, p pod.Pod) {
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.isOver {
		return nil, p
	}
	c.state.Pods++
	p, err := c.admit(sandbox)
	if err != nil {
		c.state.LeftOut++
		c.cfg.Logger.Warn("a pod of the container runtime is left out; it has no name and no labels", "sandbox", printable(sandbox.GetId()), "err", err)
		return nil, p
	}
	done, ok := c.queue.add(func(to Pods) { to.PodBegins(p) })
	if !ok {
		s.lose()
		return nil, p
	}
	return done, p
}

// lose counts an event that found the queue full, and asks for all pods anew, by another connection. The caller holds the client's mu.
func (s *session) lose() {
	s.client.state.Lost++
	s.end(errFull)
}

// StopPodSandbox comes when all processes of a pod have ended. The runtime may keep the pod in its books for long.
func (s *session) StopPodSandbox(_ context.Context, sandbox *api.PodSandbox) error {
	s.ended(sandbox.GetId())
	return nil
}

// RemovePodSandbox comes later, or alone where a pod could not be started.
func (s *session) RemovePodSandbox(_ context.Context, sandbox *api.PodSandbox) error {
	s.ended(sandbox.GetId())
	return nil
}

func (s *session) ended(sandbox string) {
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.sandboxes[sandbox]; !ok || s.isOver {
		return
	}
	if _, ok := c.queue.add(func(to Pods) { to.PodEnded(sandbox) }); !ok {
		s.lose()
		return
	}
	delete(c.sandboxes, sandbox)
}

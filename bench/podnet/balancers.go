// SPDX-License-Identifier: Apache-2.0

package podnet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/peers"
)

// Admin asks the XLB of the host.
func (n *Net) Admin() lab.Admin {
	return lab.Admin{HTTP: n.HTTPClient(), Address: peers.AdminAddress}
}

// StartXLB starts the one XLB of the host. Its kernel memory is charged to c. It does not wait.
func (n *Net) StartXLB(services []peers.Listener, c lab.Charge) (*lab.Process, error) {
	text, err := peers.PodsXLB(services)
	if err != nil {
		return nil, err
	}
	file, err := n.write("xlb", text)
	if err != nil {
		return nil, err
	}
	path, args := c.Within(n.tools.XLB, "run", "--config", file, "--admin", peers.AdminAddress.String(), "--namespaces", "all", "--namespace-directory", "",
		"--fast-path", "on", "--cgroup", n.Workload())
	return n.Start(lab.Command{Name: "xlb", Path: path, Args: args, Role: lab.Balancer})
}

// AwaitXLB waits until the XLB is ready and serves so many pods.
func (n *Net) AwaitXLB(ctx context.Context, xlb *lab.Process, pods int) error {
	err := n.await(ctx, fmt.Sprintf("an XLB that serves %d pods", pods), func() error {
		if _, err := n.Admin().Get("/ready"); err != nil {
			return err
		}
		has, err := n.Admin().Metric("xlb_workloads_active", "")
		if err == nil && has < float64(pods) {
			err = fmt.Errorf("it serves %.0f", has)
		}
		return err
	})
	return errors.Join(err, xlb.Exited())
}

// Moved counts XLB's requests so far: all, and those that the kernel moved. The zero value is what other peers have.
type Moved struct{ Fast, All float64 }

// Moved asks the XLB of the host.
func (n *Net) Moved() (m Moved, err error) {
	if m.All, err = n.Admin().Metric("xlb_requests_total", ""); err != nil {
		return m, err
	}
	m.Fast, err = n.Admin().Metric("xlb_requests_total", `path="fast"`)
	return m, err
}

// ShareSince is the share that the kernel moved of the requests since before; 0: without any.
func (m Moved) ShareSince(before Moved) float64 {
	if m.All <= before.All {
		return 0
	}
	return (m.Fast - before.Fast) / (m.All - before.All)
}

// StartClientSidecar starts the Envoy of a pod whose clients ask services, and has the pod redirect to it what they send.
func (n *Net) StartClientSidecar(p *Pod, services []peers.Listener, workers int, c lab.Charge) (*lab.Process, error) {
	text, err := peers.PodClientSidecar(services)
	if err != nil {
		return nil, err
	}
	return n.startSidecar(p, text, peers.PodClientRules(), workers, c)
}

// StartServerSidecar starts the Envoy of a pod's server, and has the pod redirect to it what comes in.
func (n *Net) StartServerSidecar(p *Pod, workers int, c lab.Charge) (*lab.Process, error) {
	text, err := peers.PodServerSidecar(p.Server())
	if err != nil {
		return nil, err
	}
	return n.startSidecar(p, text, peers.PodServerRules(ServerPort), workers, c)
}

func (n *Net) startSidecar(p *Pod, text []byte, rules string, workers int, c lab.Charge) (*lab.Process, error) {
	name := "sidecar of " + p.Address.String()
	file, err := n.write("sidecar-"+p.Address.String(), text)
	if err != nil {
		return nil, err
	}
	path, args := c.Within(n.tools.Envoy, peers.EnvoyOfPod(file, workers)...)
	running, err := lab.Launch(p.ns, n.Cgroup(lab.Balancer), lab.Command{Name: name, Path: path, Args: args})
	if err != nil {
		return nil, err
	}
	if err := n.nft(p, rules); err != nil {
		return nil, errors.Join(err, running.Stop())
	}
	p.redirects = true
	return running, nil
}

// StopAll stops processes, some at once, and takes the pods' rules away, which is after the kernel has seen the ends of the connections.
func (n *Net) StopAll(running []*lab.Process) error {
	const atOnce = 16
	room := make(chan struct{}, atOnce)
	errs := make([]error, len(running))
	var ending sync.WaitGroup
	for i, p := range running {
		room <- struct{}{}
		ending.Go(func() {
			defer func() { <-room }()
			errs[i] = p.Stop()
		})
	}
	ending.Wait()
	for _, p := range n.Pods {
		if p.redirects {
			errs = append(errs, n.nft(p, peers.NoPodRules()))
			p.redirects = false
		}
	}
	return errors.Join(errs...)
}

// write makes a configuration file. Its ending names the format.
func (n *Net) write(name string, text []byte) (file string, err error) {
	file = filepath.Join(n.dir, name+".yaml")
	return file, os.WriteFile(file, text, 0o644)
}

// SPDX-License-Identifier: Apache-2.0

package podnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/vishvananda/netns"

	"github.com/xlb-project/xlb/bench/chain"
	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/peers"
)

// ServerPort is where the server of each pod listens, at all of its addresses.
const ServerPort = 8080

// Most is how many pods a net may have.
const Most = 4000

var (
	// firstPod and firstService begin the addresses of pods and of services; both lie in 198.18.0.0/15, which RFC 2544 reserves for benchmarks.
	firstPod     = netip.MustParseAddr("198.18.100.1")
	firstService = netip.MustParseAddrPort("198.19.0.1:80")
)

// Net is a host with pods. The host is the lab's.
type Net struct {
	*lab.Lab
	Pods []*Pod
	// Files is how many files XLB and each other process may have open.
	Files uint64
	tools Tools
	dir   string
}

// Tools are the paths of programs; Envoy and NFT are needed by sidecars alone.
type Tools struct{ XLB, NGINX, Envoy, NFT string }

// Pod is a network namespace with a server.
type Pod struct {
	Address netip.Addr
	ns      netns.NsHandle
	cgroup  string
	// redirects: its network stack has rules.
	redirects bool
}

// New makes a host with so many pods, after removing what a killed run may have left.
func New(topology lab.Topology, pods int, t Tools) (*Net, error) {
	if pods < 0 || pods > Most {
		return nil, fmt.Errorf("%d pods: a host has 0 to %d", pods, Most)
	}
	files, err := raiseFiles()
	if err != nil {
		return nil, err
	}
	l, err := lab.New(topology)
	if err != nil {
		return nil, err
	}
	n := &Net{Lab: l, Files: files, tools: t}
	if err := n.build(pods); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (n *Net) build(pods int) (err error) {
	if err := removeStale(); err != nil {
		return err
	}
	if n.dir, err = os.MkdirTemp("", directories); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(n.dir, "nginx.conf"), []byte(nginxFile(n.dir)), 0o644); err != nil {
		return err
	}
	if err := n.Within(lab.ClientHost, forward); err != nil {
		return err
	}
	links, err := newHub(n.Namespace(lab.ClientHost))
	if err != nil {
		return err
	}
	defer links.Close()
	address := firstPod
	for i := range pods {
		p := &Pod{Address: address, ns: netns.None(), cgroup: filepath.Join(n.Workload(), "pods", fmt.Sprintf("%064x", i))}
		n.Pods = append(n.Pods, p)
		if err := os.MkdirAll(p.cgroup, 0o755); err != nil {
			return err
		}
		if p.ns, err = newNamespace(); err != nil {
			return err
		}
		if err := lab.Within(p.ns, lab.WriteSysctls); err != nil {
			return err
		}
		if err := join(links, i, p); err != nil {
			return fmt.Errorf("join pod %d to the host: %w", i, err)
		}
		address = address.Next()
	}
	return nil
}

// directories begins the names of directories for files.
const directories = "xlb-bench-pods-"

// removeStale removes directories that killed runs have left: the lab is this run's alone.
func removeStale() error {
	stale, err := filepath.Glob(filepath.Join(os.TempDir(), directories+"*"))
	for _, dir := range stale {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// forward has the host route between pods.
func forward() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) }

// newNamespace makes one without a name: it goes with the last process and descriptor of it.
func newNamespace() (ns netns.NsHandle, err error) {
	runtime.LockOSThread()
	origin, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return netns.None(), err
	}
	defer origin.Close()
	if ns, err = netns.New(); err != nil {
		return netns.None(), fmt.Errorf("make a network namespace (run as root): %w", err)
	}
	if err := netns.Set(origin); err != nil {
		// The thread stays locked, and ends with this goroutine.
		return ns, err
	}
	runtime.UnlockOSThread()
	return ns, nil
}

// Close ends what runs in the pods and removes them.
func (n *Net) Close() error {
	err := n.Lab.Close()
	for _, p := range n.Pods {
		if p.ns.IsOpen() {
			err = errors.Join(err, p.ns.Close())
		}
	}
	if n.dir != "" {
		err = errors.Join(err, os.RemoveAll(n.dir))
	}
	return err
}

// Services are one for each of these pods, with the pod's server as its endpoint.
func Services(pods []*Pod) []peers.Listener {
	servers := make([]netip.AddrPort, len(pods))
	for i, p := range pods {
		servers[i] = p.Server()
	}
	return ServicesAt(servers)
}

// ServicesAt are one for each server.
func ServicesAt(servers []netip.AddrPort) []peers.Listener {
	list := make([]peers.Listener, len(servers))
	for i, at := range chain.Addresses(firstService, len(servers)) {
		list[i] = peers.Listener{Name: fmt.Sprintf("s%d", i), Address: at, Endpoints: servers[i : i+1]}
	}
	return list
}

// Server is where the pod's server is reached.
func (p *Pod) Server() netip.AddrPort { return netip.AddrPortFrom(p.Address, ServerPort) }

// CPUOfAll is the processor time that pods, clients, servers and balancers have used.
func (n *Net) CPUOfAll() (time.Duration, error) {
	workload, err := lab.CPUOf(n.Workload())
	if err != nil {
		return 0, err
	}
	balancer, err := n.CPU(lab.Balancer)
	return workload + balancer, err
}

// Start starts a program of the pod, in its cgroup.
func (p *Pod) Start(name, path string, args ...string) (*lab.Process, error) {
	return lab.Launch(p.ns, p.cgroup, lab.Command{Name: name, Path: path, Args: args})
}

// StartSelf starts a command of this program in the pod.
func (p *Pod) StartSelf(args ...string) (*lab.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return p.Start(args[0], self, args...)
}

// StartServers starts a server in each of these pods, and waits until all answer. They end with the net.
func (n *Net) StartServers(ctx context.Context, pods []*Pod) error {
	for i, p := range pods {
		if _, err := p.Start(fmt.Sprintf("nginx%d", i), n.tools.NGINX, n.nginxArgs(p.Address.String())...); err != nil {
			return err
		}
	}
	for _, p := range pods {
		if _, err := chainAwait(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// WriteScript writes wrk's script, and returns where it is.
func (n *Net) WriteScript(script []byte) (string, error) {
	file := filepath.Join(n.dir, "wrk.lua")
	return file, os.WriteFile(file, script, 0o644)
}

// nft gives rules to a pod's network stack.
func (n *Net) nft(p *Pod, rules string) error {
	command := exec.Command(n.tools.NFT, "-f", "-")
	command.Stdin = strings.NewReader(rules)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := lab.Within(p.ns, command.Run); err != nil {
		return fmt.Errorf("nft in the pod %s: %w: %s", p.Address, err, strings.TrimSpace(out.String()))
	}
	return nil
}

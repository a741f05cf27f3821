// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/vishvananda/netns"
)

// Topology says where the endpoints are, seen from the clients.
type Topology string

const (
	// SameHost has one host: clients, balancer and endpoints share one network namespace,
	// and the endpoints are in the workload's cgroup.
	SameHost Topology = "same"
	// CrossHost has two: the endpoints are in a namespace of their own behind a veth
	// pair, outside the workload's cgroup.
	CrossHost Topology = "cross"
)

// Role is what a process is in the experiment; it decides its cgroup.
type Role int

// The roles.
const (
	Client Role = iota
	Endpoint
	Balancer
	roles
)

// Host is the machine that a process stands on; it decides its namespace.
type Host int

// The hosts; with SameHost they are one.
const (
	ClientHost Host = iota
	ServerHost
)

// Lab is one topology, built. The zero value is not usable.
type Lab struct {
	topology       Topology
	client, server netns.NsHandle
	root           string
	cgroups        [roles]string
	lock           *os.File
}

// New builds a topology, after removing what a killed run may have left. Only
// one lab exists on a machine at a time.
func New(topology Topology) (*Lab, error) {
	lock, err := Lock()
	if err != nil {
		return nil, err
	}
	l := &Lab{topology: topology, lock: lock, client: netns.None(), server: netns.None()}
	if err := l.build(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Lock makes sure that no other benchmark runs on this machine, until the file is closed.
func Lock() (*os.File, error) {
	path := filepath.Join(os.TempDir(), "xlb-bench.lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w: another benchmark runs, and two would measure each other; wait for it", path, err)
	}
	return f, nil
}

func (l *Lab) build() (err error) {
	if l.root, err = cgroupRoot(); err != nil {
		return err
	}
	if err := l.remove(); err != nil {
		return fmt.Errorf("remove what an earlier run left: %w", err)
	}
	l.cgroups = cgroupsOf(l.root, l.topology)
	if err := makeCgroups(l.cgroups[:]...); err != nil {
		return err
	}
	l.client, l.server, err = makeNamespaces(l.topology)
	return err
}

// cgroupsOf places the roles: XLB sees clients always, endpoints only when they
// are on its host, and balancers never.
func cgroupsOf(root string, topology Topology) (dirs [roles]string) {
	dirs[Client] = filepath.Join(root, "workload", "clients")
	dirs[Endpoint] = filepath.Join(root, "workload", "endpoints")
	if topology == CrossHost {
		dirs[Endpoint] = filepath.Join(root, "endpoints")
	}
	dirs[Balancer] = filepath.Join(root, "balancer")
	return dirs
}

// Close ends what is left in the lab and removes it.
func (l *Lab) Close() error {
	var errs []error
	if l.topology == CrossHost && l.server.IsOpen() {
		errs = append(errs, l.server.Close())
	}
	if l.client.IsOpen() {
		errs = append(errs, l.client.Close())
	}
	return errors.Join(append(errs, l.remove(), l.lock.Close())...)
}

func (l *Lab) remove() error {
	if l.root == "" {
		return nil
	}
	return errors.Join(RemoveCgroups(l.root), charged.Remove(), removeNamespaces())
}

// Workload is the cgroup whose processes XLB balances.
func (l *Lab) Workload() string { return filepath.Join(l.root, "workload") }

// EndpointAddress is where endpoints listen, reachable by clients and balancers.
func (l *Lab) EndpointAddress() netip.Addr {
	if l.topology == CrossHost {
		return serverAddress
	}
	return loopback
}

// Cgroup is where the processes of a role are.
func (l *Lab) Cgroup(r Role) string { return l.cgroups[r] }

// Namespace is that of a host; it is the lab's, which closes it.
func (l *Lab) Namespace(h Host) netns.NsHandle {
	if h == ServerHost {
		return l.server
	}
	return l.client
}

// Within runs f on a thread that is on a host: see the function Within.
func (l *Lab) Within(h Host, f func() error) error { return Within(l.Namespace(h), f) }

// CPU returns the processor time that the processes of a role have used.
func (l *Lab) CPU(r Role) (time.Duration, error) { return CPUOf(l.Cgroup(r)) }

// ProcessorShare is the share of one processor that a role's processes use for so long.
func (l *Lab) ProcessorShare(ctx context.Context, r Role, long time.Duration) (float64, error) {
	before, err := l.CPU(r)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := Pause(ctx, long); err != nil {
		return 0, err
	}
	after, err := l.CPU(r)
	return (after - before).Seconds() / time.Since(began).Seconds(), err
}

// Pause returns after so long, or with the error of ctx once that has ended.
func Pause(ctx context.Context, long time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(long):
		return nil
	}
}

// Sysctl reads a sysctl as the clients' namespace has it, named with slashes:
// "net/ipv4/tcp_rmem".
func (l *Lab) Sysctl(name string) (value string, err error) {
	err = Within(l.client, func() error {
		content, err := os.ReadFile(filepath.Join("/proc/sys", name))
		value = string(content)
		return err
	})
	return value, err
}

// HTTPClient returns a client whose connections start on the clients' host.
func (l *Lab) HTTPClient() *http.Client { return l.HTTPClientOn(ClientHost) }

// HTTPClientOn returns a client whose connections start on a host. Its
// process is in no cgroup of the lab, so XLB leaves it alone. It makes one
// connection per request, to numeric addresses only.
func (l *Lab) HTTPClientOn(h Host) *http.Client {
	dial := func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = Within(l.Namespace(h), func() error {
			var d net.Dialer
			conn, err = d.DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
	return &http.Client{
		Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true},
		Timeout:   2 * time.Second,
	}
}

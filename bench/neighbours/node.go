// SPDX-License-Identifier: Apache-2.0

package neighbours

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netns"

	"github.com/xlb-project/xlb/bench/lab"
)

const (
	// prefix begins the names of namespaces and of the cgroup.
	prefix = "xlb-bench-node-"
	bridge = "br0"
	// site is a network namespace of the node.
	host    site = 0
	watched site = 1
	hostile site = 2
	// server answers the watched client, origin the hostile one.
	server site = 3
	origin site = 4
	sites       = 5
)

type site int

var siteNames = [sites]string{"host", "watched", "hostile", "server", "origin"}

// pods are all sites but the host.
var pods = []site{watched, hostile, server, origin}

// address lies in 198.18.0.0/15, which RFC 2544 reserves for benchmarks.
func (p site) address() netip.Addr { return netip.AddrFrom4([4]byte{198, 18, 81, byte(1 + p)}) }

func (p site) namespace() string { return prefix + siteNames[p] }

// node is a host with pods: a network namespace and a cgroup each, joined by a bridge of the host. The zero value is not usable.
type node struct {
	lock       *os.File
	root       string
	namespaces [sites]netns.NsHandle
	limit      limit
}

// newNode builds one, after removing what a killed run may have left.
func newNode(hundredths, processors int) (n *node, err error) {
	lock, err := lab.Lock()
	if err != nil {
		return nil, err
	}
	n = &node{lock: lock}
	for p := range n.namespaces {
		n.namespaces[p] = netns.None()
	}
	if err := n.build(hundredths, processors); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func (n *node) build(hundredths, processors int) error {
	mount, err := lab.MountedCgroups()
	if err != nil {
		return err
	}
	n.root = filepath.Join(mount, strings.TrimSuffix(prefix, "-"))
	if err := n.remove(); err != nil {
		return fmt.Errorf("remove what an earlier run left: %w", err)
	}
	for p := range site(sites) {
		if err := os.MkdirAll(n.cgroup(p), 0o755); err != nil {
			return fmt.Errorf("create a cgroup (run as root): %w", err)
		}
		if err := n.addNamespace(p); err != nil {
			return err
		}
	}
	n.limit, err = newLimit(mount, n.cgroup(hostile), hundredths)
	n.limit.processors = processors
	return err
}

// workload returns the flags for the cgroups whose processes XLB balances.
func (n *node) workload() (flags []string) {
	for _, p := range pods {
		if p != origin {
			flags = append(flags, "--cgroup", filepath.Dir(n.cgroup(p)))
		}
	}
	return flags
}

// cgroup of a site: that of a pod looks like a container's, and is not more than three levels below the root, as far as XLB tells apart whose work it does
// in user space. The server of the hostile pod is in that one's, with its limit; XLB has one that it does not balance.
func (n *node) cgroup(p site) string {
	switch p {
	case host:
		return filepath.Join(n.root, "balancer")
	case origin:
		return filepath.Join(filepath.Dir(n.cgroup(hostile)), "server")
	}
	return filepath.Join(n.root, fmt.Sprintf("%064x", int(p)), "main")
}

// addNamespace joins a namespace to the bridge, which the first one has.
func (n *node) addNamespace(p site) (err error) {
	name := p.namespace()
	commands := []string{"netns add " + name, "-n " + name + " link set lo up"}
	device := bridge
	if p == host {
		commands = append(commands, "-n "+name+" link add "+bridge+" type bridge")
	} else {
		device = "eth0"
		outer := "veth" + fmt.Sprint(int(p))
		commands = append(commands,
			fmt.Sprintf("-n %s link add %s type veth peer name %s netns %s", host.namespace(), outer, device, name),
			fmt.Sprintf("-n %s link set %s master %s up", host.namespace(), outer, bridge))
	}
	commands = append(commands, fmt.Sprintf("-n %s address add %s/24 dev %s", name, p.address(), device), fmt.Sprintf("-n %s link set %s up", name, device))
	for _, command := range commands {
		if out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", command, err, strings.TrimSpace(string(out)))
		}
	}
	if n.namespaces[p], err = netns.GetFromName(name); err != nil {
		return fmt.Errorf("open network namespace %s: %w", name, err)
	}
	return lab.Within(n.namespaces[p], lab.UseCubic)
}

// close ends what runs in the node and removes it.
func (n *node) close() error {
	var errs []error
	for _, ns := range n.namespaces {
		if ns.IsOpen() {
			errs = append(errs, ns.Close())
		}
	}
	return errors.Join(append(errs, n.remove(), n.lock.Close())...)
}

func (n *node) remove() error {
	if n.root == "" {
		return nil
	}
	errs := []error{lab.RemoveCgroups(n.root), n.limit.remove()}
	for p := range site(sites) {
		if _, err := os.Stat(filepath.Join("/run/netns", p.namespace())); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if out, err := exec.Command("ip", "netns", "delete", p.namespace()).CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("ip netns delete %s: %w: %s", p.namespace(), err, strings.TrimSpace(string(out))))
		}
	}
	return errors.Join(errs...)
}

// start starts a program at a site.
func (n *node) start(p site, name, path string, args ...string) (*lab.Process, error) {
	return lab.Launch(n.namespaces[p], n.cgroup(p), lab.Command{Name: name, Path: path, Args: args})
}

// startSelf starts a command of this program, one of the hostile pod within its limit.
func (n *node) startSelf(p site, args ...string) (*lab.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := append([]string{self}, args...)
	if p == hostile || p == origin {
		command = n.limit.within(command)
	}
	return n.start(p, siteNames[p]+" "+args[0], command[0], command[1:]...)
}

// get asks the daemon's admin API on the host.
func (n *node) client() *http.Client {
	dial := func(ctx context.Context, network, to string) (conn net.Conn, err error) {
		err = lab.Within(n.namespaces[host], func() error {
			var d net.Dialer
			conn, err = d.DialContext(ctx, network, to)
			return err
		})
		return conn, err
	}
	const patience = 5 * time.Second
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: patience}
}

// sysctl as the watched pod has it.
func (n *node) sysctl(name string) (value string, err error) {
	err = lab.Within(n.namespaces[watched], func() error {
		content, err := os.ReadFile(filepath.Join("/proc/sys", name))
		value = string(content)
		return err
	})
	return value, err
}

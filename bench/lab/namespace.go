// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/vishvananda/netns"
)

const (
	clientNamespace = "xlb-bench-client"
	serverNamespace = "xlb-bench-server"
	// link is the name of both ends of the veth pair, each in its namespace.
	link = "veth0"
)

// The addresses of the veth pair lie in 198.18.0.0/15, which RFC 2544 reserves
// for benchmarks.
var (
	loopback      = netip.MustParseAddr("127.0.0.1")
	serverAddress = netip.MustParseAddr("198.18.80.2")
)

// ClientAddress is the clients' host's on the way to the other one.
var ClientAddress = netip.MustParseAddr("198.18.80.1")

// sysctls of every namespace of the lab. One connection per request leaves a
// TIME_WAIT socket behind each request; without these a run of some seconds
// measures the port range, not the path.
var sysctls = map[string]string{
	// What listens lies below: a connection's own port, until a minute after its end, is not free to listen at.
	"net/ipv4/ip_local_port_range": "20000 65535",
	"net/ipv4/tcp_tw_reuse":        "1",
}

// makeNamespaces creates the namespaces of a topology and returns the handle
// of each. On one host both are the same namespace.
func makeNamespaces(topology Topology) (client, server netns.NsHandle, err error) {
	client, server = netns.None(), netns.None()
	if err := ipAll(namespaceCommands(topology)); err != nil {
		return client, server, err
	}
	if client, err = openNamespace(clientNamespace); err != nil {
		return client, server, err
	}
	if topology == SameHost {
		server = client
		return client, server, nil
	}
	server, err = openNamespace(serverNamespace)
	return client, server, err
}

// namespaceCommands lists the arguments of the ip(8) calls that build a topology.
func namespaceCommands(topology Topology) []string {
	client := []string{
		"netns add " + clientNamespace,
		"-n " + clientNamespace + " link set lo up",
	}
	if topology == SameHost {
		return client
	}
	return slices.Concat(client, []string{
		"netns add " + serverNamespace,
		"-n " + serverNamespace + " link set lo up",
		fmt.Sprintf("-n %s link add %s type veth peer name %s netns %s",
			clientNamespace, link, link, serverNamespace),
		fmt.Sprintf("-n %s address add %s/30 dev %s", clientNamespace, ClientAddress, link),
		fmt.Sprintf("-n %s address add %s/30 dev %s", serverNamespace, serverAddress, link),
		fmt.Sprintf("-n %s link set %s up", clientNamespace, link),
		fmt.Sprintf("-n %s link set %s up", serverNamespace, link),
	})
}

func ipAll(commands []string) error {
	for _, command := range commands {
		out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %s: %w: %s", command, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

func openNamespace(name string) (netns.NsHandle, error) {
	handle, err := netns.GetFromName(name)
	if err != nil {
		return handle, fmt.Errorf("open network namespace %s: %w", name, err)
	}
	return handle, Within(handle, WriteSysctls)
}

// WriteSysctls sets those of the thread's network namespace that all of a lab have.
func WriteSysctls() error {
	for name, value := range sysctls {
		if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0); err != nil {
			return fmt.Errorf("set sysctl %s: %w", name, err)
		}
	}
	return UseCubic()
}

// removeNamespaces removes the lab's namespaces as far as they exist.
func removeNamespaces() error {
	var errs []error
	for _, name := range []string{clientNamespace, serverNamespace} {
		if _, err := os.Stat(filepath.Join("/run/netns", name)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		errs = append(errs, ipAll([]string{"netns delete " + name}))
	}
	return errors.Join(errs...)
}

// Within runs f on a thread that is inside the namespace. Sockets that f opens
// and processes that it starts stay there; /proc/sys/net is that namespace's.
func Within(ns netns.NsHandle, f func() error) (err error) {
	runtime.LockOSThread()
	origin, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("open the current network namespace: %w", err)
	}
	defer func() { err = errors.Join(err, origin.Close()) }()
	if err := netns.Set(ns); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter network namespace: %w", err)
	}
	err = f()
	if back := netns.Set(origin); back != nil {
		// The thread stays locked: no other goroutine may run in the wrong
		// namespace, and the runtime ends it with this goroutine.
		return errors.Join(err, fmt.Errorf("leave network namespace: %w", back))
	}
	runtime.UnlockOSThread()
	return err
}

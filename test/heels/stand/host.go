// SPDX-License-Identifier: Apache-2.0

package stand

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/bench/lab"
)

const (
	ifaNoDAD   = unix.IFA_F_NODAD
	getTimeout = 2 * time.Second
)

// Host is a network namespace and a cgroup.
type Host struct {
	Name   string
	ns     netns.NsHandle
	cgroup string
	own    addresses
}

// sysctls of every host.
var sysctls = map[string]string{
	"ipv4/conf/all/rp_filter":     "0",
	"ipv4/conf/default/rp_filter": "0",
	// One connection per request leaves many behind in TIME_WAIT.
	"ipv4/ip_local_port_range": "20000 65535",
	"ipv4/tcp_tw_reuse":        "1",
	"ipv4/icmp_ratelimit":      "0",
	"ipv6/icmp/ratelimit":      "0",
	"ipv4/tcp_syncookies":      "1",
	// Room for bursts of connections.
	"ipv4/tcp_max_syn_backlog": "16384",
	"core/somaxconn":           "16384",
}

// silence drops the reports of multicast groups that IPv6 sends for a while after a link has come up.
const silence = "table ip6 silence { chain out { type filter hook output priority 0; icmpv6 type mld2-listener-report drop; }; }"

func newHost(name, cgroups string, own addresses) (*Host, error) {
	h := &Host{Name: name, ns: netns.None(), own: own, cgroup: cgroups + name}
	err := errors.Join(os.Mkdir(h.cgroup, 0o755), os.Mkdir(h.outside(), 0o755))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make cgroups (run as root): %w", err), h.Close())
	}
	if h.ns, err = newNamespace(); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	_, err = h.Run(silence, "nft", "-f", "-")
	if err := errors.Join(err, h.Do(h.settle)); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare %s: %w", name, err), h.Close())
	}
	return h, nil
}

// newNamespace makes a namespace without a name, and returns to the old one.
func newNamespace() (made netns.NsHandle, err error) {
	own, err := netns.Get()
	if err != nil {
		return netns.None(), err
	}
	defer own.Close()
	err = lab.Within(own, func() error {
		made, err = netns.New()
		return err
	})
	if err != nil {
		return netns.None(), fmt.Errorf("make a network namespace (run as root): %w", err)
	}
	return made, nil
}

func (h *Host) settle() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	for name, value := range sysctls {
		if err := writeSysctl(name, value); err != nil {
			return err
		}
	}
	return lab.UseCubic()
}

// forward makes a router of the host.
func (h *Host) forward() error {
	return h.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return errors.Join(h.own.addTo(lo),
			writeSysctl("ipv4/ip_forward", "1"),
			writeSysctl("ipv6/conf/all/forwarding", "1"),
			writeSysctl("ipv4/conf/all/send_redirects", "0"),
			writeSysctl("ipv4/conf/default/send_redirects", "0"))
	})
}

// steer has links that the host gets from now on spread connections over processors (RPS).
func (h *Host) steer() error {
	// One word of the mask, which has one for each 32.
	processors := min(runtime.NumCPU(), 32)
	return h.Sysctl("core/rps_default_mask", fmt.Sprintf("%x", uint64(1)<<processors-1))
}

// Do runs f on a thread inside the host's network namespace.
func (h *Host) Do(f func() error) error { return lab.Within(h.ns, f) }

// Address and Address6 are the host's own.
func (h *Host) Address() netip.Addr { return h.own.v4 }

// Address6 is the host's own IPv6 address.
func (h *Host) Address6() netip.Addr { return h.own.v6 }

// Cgroup is the directory that the host's processes are in.
func (h *Host) Cgroup() string { return h.cgroup }

// Start starts a process on the host.
func (h *Host) Start(name, path string, args ...string) (*lab.Process, error) {
	return lab.Launch(h.ns, h.cgroup, lab.Command{Name: name + " on " + h.Name, Path: path, Args: args})
}

// StartOutside starts a process in the host's network namespace, in a cgroup of its own, as an agent that watches over the host's.
func (h *Host) StartOutside(name, path string, args ...string) (*lab.Process, error) {
	return lab.Launch(h.ns, h.outside(), lab.Command{Name: name + " on " + h.Name, Path: path, Args: args})
}

func (h *Host) outside() string { return h.cgroup + "-outside" }

// Run runs a command on the host, outside its cgroup, and returns what it wrote to standard output.
func (h *Host) Run(input, path string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	// The kernel sends the signal when the thread ends that started the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := h.Do(cmd.Run); err != nil {
		return out.String(), fmt.Errorf("%s %s on %s: %w: %s", path, strings.Join(args, " "), h.Name, err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// Get fetches a URL from the host, one connection for it alone; an answer other than 200 is an error.
func (h *Host) Get(url string) (string, error) {
	dial := func(_ context.Context, network, address string) (c net.Conn, err error) {
		err = h.Do(func() error {
			c, err = net.Dial(network, address)
			return err
		})
		return c, err
	}
	client := &http.Client{Timeout: getTimeout, Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", url, response.Status, text)
	}
	return string(text), err
}

// AddAddress gives the host's loopback one more address.
func (h *Host) AddAddress(address netip.Addr) error {
	return h.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return addAddress(lo, address)
	})
}

// Sysctl sets a value of net/, named with slashes: "ipv4/tcp_syncookies".
func (h *Host) Sysctl(name, value string) error {
	return h.Do(func() error { return writeSysctl(name, value) })
}

// Index is that of the host's link.
func (h *Host) Index() (index int, err error) {
	err = h.Do(func() error {
		l, err := netlink.LinkByName(link)
		if err == nil {
			index = l.Attrs().Index
		}
		return err
	})
	return index, err
}

func (h *Host) hardware(name string) (address net.HardwareAddr, err error) {
	err = h.Do(func() error {
		l, err := netlink.LinkByName(name)
		if err == nil {
			address = l.Attrs().HardwareAddr
		}
		return err
	})
	return address, err
}

// Close ends the host's processes and gives its namespace up. A host that is closed already is no error.
func (h *Host) Close() error {
	err := errors.Join(lab.RemoveCgroups(h.cgroup), lab.RemoveCgroups(h.outside()))
	if !h.ns.IsOpen() {
		return err
	}
	return errors.Join(err, h.ns.Close())
}

// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/pins"
	"github.com/xlb-project/xlb/internal/heels/reset"
	"github.com/xlb-project/xlb/internal/heels/routes"
	"github.com/xlb-project/xlb/internal/heels/settings"
)

// Finding is one thing that was looked at.
type Finding struct {
	Name string `json:"name"`
	// Status is "ok", "attention" or "missing"; only with the last the agent cannot run, or what it has put in force does not work.
	Status string `json:"status"`
	Detail string `json:"detail"`
	// Remedy is what to do, "" with ok.
	Remedy string `json:"remedy,omitempty"`
}

// The statuses.
const (
	Fine      = "ok"
	Attention = "attention"
	Missing   = "missing"
)

func fine(name, format string, args ...any) Finding {
	return Finding{Name: name, Status: Fine, Detail: fmt.Sprintf(format, args...)}
}

// Run looks at this machine as configuration c needs it. It changes nothing, attaches nothing and pins nothing.
func Run(c *settings.Config, pin string) []Finding {
	return append([]Finding{checkPrograms()}, machine(c, pin)...)
}

// machine is Check without the kernel.
func machine(c *settings.Config, pin string) []Finding {
	list := []Finding{checkPinDirectory(pin), checkLock(pin), checkAgents(pin)}
	for _, name := range c.Interfaces {
		list = append(list, checkInterface(name), checkAttached(c, pin, name), checkReversePath(name))
		if usesIPv6(c) {
			list = append(list, checkIPv6(name))
		}
	}
	if c.Client != nil {
		list = append(list, checkClientRoutes(c.Client))
	}
	if c.Server != nil {
		for _, vip := range c.Server.VIPs {
			list = append(list, checkListener(vip))
			if vip.Confirm {
				list = append(list, checkConfirmRoutes(c, &vip))
			}
		}
		list = append(list, checkSourceCheck())
		if c.Confirms() {
			list = append(list, checkRaw())
		}
	}
	if c.Option.KeyFile != "" {
		list = append(list, checkClock())
	}
	return append(list, checkProbing(), checkFirewall())
}

// checkRaw opens what tells balancers of ends.
func checkRaw() Finding {
	const name = "raw sockets"
	raw, err := reset.Open()
	if err != nil {
		return Finding{Name: name, Status: Missing, Detail: err.Error(), Remedy: "root, or CAP_NET_RAW"}
	}
	raw.Close()
	return fine(name, "balancers can be told of ends")
}

// checkPrograms loads what the agent loads on this kernel, and attaches nothing.
func checkPrograms() Finding {
	const name = "kernel"
	f := Finding{Name: name, Status: Missing, Remedy: "Linux 6.6 or later, and root (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON)"}
	spec, err := kernel.LoadSpec()
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	kernel.DropOtherIterators(spec, false)
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	defer coll.Close()
	// No interface has this number: a kernel that has tcx says so, an older one does not know the request.
	_, err = link.AttachTCX(link.TCXOptions{Interface: 1 << 30, Program: coll.Programs["heels_client_egress"], Attach: ebpf.AttachTCXEgress})
	if errors.Is(err, ebpf.ErrNotSupported) {
		f.Detail = "no tcx"
		return f
	}
	return fine(name, "loads all programs")
}

func checkPinDirectory(pin string) Finding {
	const name = "pin directory"
	parent := filepath.Dir(pin)
	if pins.OnBPF(pin) || pins.OnBPF(parent) {
		return fine(name, "%s", pin)
	}
	return Finding{name, Missing, pin + " is not on a BPF file system", "mount -t bpf bpf " + parent}
}

func checkInterface(name string) Finding {
	what := "interface " + name
	device, err := net.InterfaceByName(name)
	switch {
	case err != nil:
		return Finding{what, Missing, err.Error(), "name an interface of this network namespace"}
	case len(device.HardwareAddr) != 6:
		return Finding{what, Missing, "not an Ethernet interface", "name the Ethernet interface beneath"}
	}
	return fine(what, "MTU %d; hosts that talk directly should have the same", device.MTU)
}

// checkReversePath reads rp_filter: of "all" and the interface's own the larger counts.
func checkReversePath(name string) Finding {
	what := "rp_filter " + name
	mode := max(sysctl("ipv4/conf/all/rp_filter"), sysctl("ipv4/conf/"+name+"/rp_filter"))
	if mode == 1 {
		return Finding{
			what, Attention, "1 (strict): packets from a VIP or a client that is routed through another interface are dropped",
			"sysctl net.ipv4.conf." + name + ".rp_filter=2, and the same for all",
		}
	}
	return fine(what, "%d", mode)
}

func checkClientRoutes(c *settings.Client) Finding {
	if err := routes.CheckBackends(c); err != nil {
		return Finding{"routes", Missing, err.Error(), "route VIP and servers through one interface"}
	}
	return fine("routes", "VIPs and servers are reached through one interface")
}

// usesIPv6: a VIP is of that family, or comes inside packets of it.
func usesIPv6(c *settings.Config) bool {
	var all []netip.Addr
	if c.Client != nil {
		for _, vip := range c.Client.VIPs {
			all = append(all, vip.VIP.Addr())
		}
	}
	if c.Server != nil {
		for _, vip := range c.Server.VIPs {
			all = append(all, vip.VIP.Addr())
			for _, p := range vip.Balancers {
				all = append(all, p.Addr())
			}
		}
	}
	return slices.ContainsFunc(all, netip.Addr.Is6)
}

func checkIPv6(name string) Finding {
	what := "IPv6 " + name
	if sysctl("ipv6/conf/"+name+"/disable_ipv6") != 0 {
		return Finding{what, Missing, "switched off, and the configuration has IPv6 addresses", "sysctl net.ipv6.conf." + name + ".disable_ipv6=0"}
	}
	return fine(what, "on")
}

// checkListener looks for a listener in /proc/net: the agent declines SYNs without one.
func checkListener(vip settings.ServerVIP) Finding {
	what, files := fmt.Sprintf("listener on port %d", vip.Port), []string{"/proc/net/tcp", "/proc/net/tcp6"}
	detail := "there; one on :: serves IPv4 too unless it is IPV6_V6ONLY"
	if vip.VIP.Addr().Is6() {
		what, files, detail = what+", IPv6", files[1:], "there"
	}
	for _, file := range files {
		if listens(file, vip.Port) {
			return fine(what, "%s", detail)
		}
	}
	return Finding{what, Attention, "nobody listens; connections are left to the balancer's own path until somebody does", "start the server"}
}

// listens reads a table of proc_net(5): number, local address as hexadecimal, remote address, state; 0A is LISTEN.
func listens(file string, port uint16) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 3 && fields[3] == "0A" && strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", port)) {
			return true
		}
	}
	return false
}

// checkSourceCheck knows EC2 by its firmware. Whether the check is on cannot be seen from inside.
func checkSourceCheck() Finding {
	const name = "source/destination check"
	vendor, _ := os.ReadFile("/sys/class/dmi/id/sys_vendor")
	if !strings.Contains(string(vendor), "Amazon") {
		return fine(name, "not on EC2; elsewhere the network must let this host send from the VIP")
	}
	return Finding{
		name, Attention, "EC2 drops what this host sends from the VIP while the check is on",
		"aws ec2 modify-instance-attribute --no-source-dest-check, and let clients in by security group",
	}
}

func checkProbing() Finding {
	const name = "tcp_mtu_probing"
	if sysctl("ipv4/tcp_mtu_probing") > 0 {
		return fine(name, "on")
	}
	return Finding{
		name, Attention, "off: ICMP errors about packets that come from a VIP go to the balancer, and not every balancer passes them on",
		"sysctl net.ipv4.tcp_mtu_probing=1, or the same MTU on all hosts",
	}
}

// checkFirewall looks for rules that drop what conntrack calls invalid: on hosts on the way, which see one direction only, that is a direct connection.
func checkFirewall() Finding {
	const name = "firewall"
	read := false
	for _, command := range [][]string{{"nft", "list", "ruleset"}, {"iptables-save"}} {
		out, err := exec.Command(command[0], command[1:]...).Output()
		if err != nil {
			continue
		}
		read = true
		for line := range strings.Lines(strings.ToLower(string(out))) {
			if strings.Contains(line, "invalid") && strings.Contains(line, "drop") {
				return Finding{
					name, Attention, "a rule drops what conntrack calls invalid: " + strings.TrimSpace(line),
					"sysctl net.netfilter.nf_conntrack_tcp_be_liberal=1 where packets of one direction only pass",
				}
			}
		}
	}
	if !read {
		return fine(name, "not known: neither nft nor iptables-save can be run")
	}
	return fine(name, "no rule drops what conntrack calls invalid")
}

// sysctl reads a number of net/; 0 when there is none.
func sysctl(name string) int {
	data, err := os.ReadFile(filepath.Join("/proc/sys/net", name))
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0
	}
	return n
}

// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/heels/heelstest"
	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/settings"
)

var (
	livesSeed  = flag.Uint64("lives.seed", 0, "seed of the only random life of two hosts; 0: those that -lives.count or -lives.time say")
	livesCount = flag.Uint64("lives.count", 2, "how many random lives there are, with the seeds from 1 on")
	livesTime  = flag.Duration("lives.time", 0, "how long random lives with drawn seeds are begun, in place of those of -lives.count")
	livesActs  = flag.Int("lives.acts", 40, "what happens to the hosts in one of them")
)

// Clients, servers, listeners, interfaces, agents, keys and VIPs do at random what they may. No connection is lost but those whose end was itself ended, and when
// all is over nothing is left.
func TestLivesLoseNoConnection(t *testing.T) {
	if *livesSeed != 0 {
		live1(t, *livesSeed)
		return
	}
	one := func(seed uint64) { t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { live1(t, seed) }) }
	lives := uint64(0)
	for end := time.Now().Add(*livesTime); time.Now().Before(end) && !t.Failed(); lives++ {
		one(rand.Uint64())
	}
	for ; *livesTime == 0 && lives < *livesCount && !t.Failed(); lives++ {
		one(lives + 1)
	}
	t.Logf("%d lives", lives)
}

func live1(t *testing.T, seed uint64) {
	v := newVillage(t, seed)
	defer v.report()
	for range *livesActs {
		v.act()
	}
	v.rest()
	v.mustBeEmpty()
}

// lifeWay is how a life's balancer delivers.
type lifeWay struct {
	name, vip string
	// begin makes the balancer.
	begin func(*rig)
	// server is the role's VIP, but for its address.
	server string
	// serves says that the balancer's own path needs nothing of the server's agent.
	serves, keys bool
}

var lifeWays = []lifeWay{
	{"masquerading", testVIP, func(r *rig) { r.nat("80", testServer1+":80", true) }, "mode: rewritten, balancers: [10.77.1.0/24], clients: [10.77.3.0/24]", true, true},
	{"confirming", testVIP, func(r *rig) { r.nat("80", testServer1+":80", true) }, "mode: rewritten, confirm: true, balancers: [10.77.1.0/24], clients: [10.77.3.0/24]", true, true},
	{"encapsulating", testVIP, func(r *rig) { r.encapsulate(ipip) }, "mode: encapsulated, balancers: [10.77.1.0/24], clients: [10.77.3.0/24]", false, true},
	{"masquerading over IPv6", rig6VIP, (*rig).masquerade6, "mode: rewritten, balancers: [\"fd77::/16\"], clients: [\"fd77:3::/32\"]", true, false},
}

// masquerade6 is nat6 with the balancer's address as source.
func (r *rig) masquerade6() {
	r.nat6()
	r.lb.Run("table ip6 m {\n chain post { type nat hook postrouting priority 100; ct status dnat masquerade fully-random; }\n}\n", "nft", "-f", "-")
}

// villager is a host with an agent that comes and goes.
type villager struct {
	*host
	role      Role
	agent     *Agent
	addresses []string
	mac       net.HardwareAddr
	keyFile   string
	// without says that the VIP is not named.
	without bool
	// others are VIPs besides.
	others int
}

// village is what one life has to do with. Acts are one after the other; connections go on meanwhile.
type village struct {
	*rand.Rand
	t              *testing.T
	r              *rig
	way            lifeWay
	client, server *villager
	listener       net.Listener
	// isOpen says that somebody listens, closed and away how often a listener was closed and an interface deleted: what begins meanwhile may be refused.
	isOpen, isAway atomic.Bool
	closed, away   atomic.Int64
	// keys are the steps of an exchange so far; 0: no keys.
	keys, keyStep int
	talks         sync.WaitGroup
	// over ends long connections; lost counts connections that were.
	over           chan struct{}
	started, ended atomic.Int64
	lost           atomic.Int64
	start          time.Time
	mu             sync.Mutex
	trail          []string
}

func newVillage(t *testing.T, seed uint64) *village {
	v := &village{Rand: rand.New(rand.NewPCG(seed, 0)), t: t, r: newRig(t, testServer1), over: make(chan struct{}), start: time.Now()}
	v.way = lifeWays[v.IntN(len(lifeWays))]
	v.way.begin(v.r)
	v.client = &villager{host: v.r.client, role: ClientRole, addresses: []string{testClient}}
	v.server = &villager{host: v.r.servers[0], role: ServerRole, addresses: []string{testServer1}}
	if v.way.vip == rig6VIP {
		v.client.addresses = append(v.client.addresses, rig6Client)
		v.server.addresses = append(v.server.addresses, rig6Server)
	}
	v.r.client.Sysctl("ipv4/tcp_tw_reuse", "1")
	if v.way.keys && v.IntN(2) == 0 {
		v.keys = 1
	}
	v.note("seed %d: %s, keys %d", seed, v.way.name, v.keys)
	root, dir := heelstest.BPFFS(t), t.TempDir()
	for _, h := range v.hosts() {
		h.pin, h.keyFile = filepath.Join(root, string(h.role)), filepath.Join(dir, string(h.role))
		v.writeKeys(h, 0)
		v.begin(h)
	}
	v.arrange()
	v.open()
	return v
}

func (v *village) hosts() []*villager { return []*villager{v.server, v.client} }

func (v *village) note(format string, a ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.trail = append(v.trail, fmt.Sprintf("%6.3f ", time.Since(v.start).Seconds())+fmt.Sprintf(format, a...))
}

func (v *village) report() {
	if v.t.Failed() {
		v.t.Logf("to repeat: -lives.seed and -lives.acts=%d\n%s", *livesActs, strings.Join(v.trail, "\n"))
	}
}

// lose is a connection that should not have ended.
func (v *village) lose(format string, a ...any) {
	v.lost.Add(1)
	v.note("LOST "+format+": %s", append(a, v.sockets())...)
	v.t.Errorf(format, a...)
}

// sockets are those of both hosts as the kernel lists them, and what the agents know of connections.
func (v *village) sockets() (text string) {
	for _, h := range v.hosts() {
		_ = heelstest.Enter(h.NS, func() error {
			out, err := exec.Command("ss", "-Htano").Output()
			text += fmt.Sprintf("\n%s:\n%s", h.role, out)
			return err
		})
		if a := h.agent; a != nil {
			conns, _ := a.Connections()
			for _, c := range conns {
				text += fmt.Sprintf("%s to %s, server %s: %s, %s\n", c.Local, c.Remote, c.Server, c.State, c.TCP)
			}
		}
	}
	return text
}

// arrange has the client send what the balancer's program can wrap, one segment a packet, and a wire can carry then.
func (v *village) arrange() {
	v.server.Sysctl("ipv4/conf/all/arp_ignore", "1")
	for _, h := range v.hosts() {
		heelstest.Within(v.t, h.NS, func() error {
			l, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			h.mac = l.Attrs().HardwareAddr
			return nil
		})
		v.narrow(h)
	}
}

func (v *village) narrow(h *villager) {
	if v.way.name != "encapsulating" || h.role != ClientRole {
		return
	}
	heelstest.Within(v.t, h.NS, func() error {
		l, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetMTU(l, 1400), netlink.LinkSetGSOMaxSegs(l, 1))
	})
}

// text is a villager's configuration.
func (v *village) text(h *villager) string {
	text := "kind: heels\ninterfaces: [eth0]\ncgroup: " + testCgroup + "\n"
	if v.keys > 0 {
		text += "option: { key: { file: " + h.keyFile + " } }\n"
	}
	text += string(h.role) + ":\n  vips:\n"
	vips := []string{net.JoinHostPort(v.way.vip, "80")}
	if h.without {
		vips = nil
	}
	for i := range h.others {
		vips = append(vips, net.JoinHostPort(v.way.vip, fmt.Sprint(90+i)))
	}
	for _, vip := range vips {
		if h.role == ServerRole {
			text += fmt.Sprintf("  - { vip: %q, %s }\n", vip, v.way.server)
			continue
		}
		text += fmt.Sprintf("  - { vip: %q, backends: [%q] }\n", vip, map[string]string{testVIP: "10.77.2.0/24", rig6VIP: "fd77:2::/32"}[v.way.vip])
	}
	return text
}

// begin starts an agent, over what the last one has left.
func (v *village) begin(h *villager) {
	v.t.Helper()
	c, err := settings.Parse("heels.yaml", []byte(v.text(h)))
	if err != nil {
		v.t.Fatal(err)
	}
	var a *Agent
	heelstest.Within(v.t, h.NS, func() (err error) {
		a, err = Start(c, h.pin, testCgroup)
		return err
	})
	last := h.agent
	h.agent = a
	if last != nil {
		last.Close()
	}
	v.t.Cleanup(func() {
		if h.agent != a {
			return
		}
		if err := a.Detach(true); err != nil && !errors.Is(err, os.ErrNotExist) {
			v.t.Error(err)
		}
		a.Close()
	})
}

// Keys of an exchange, by its steps: the new one is second, is the first, is alone.
var lifeKeys = []string{"0001020304050607", "1001020304050607", "2001020304050607"}

func (v *village) writeKeys(h *villager, step int) {
	old, fresh := lifeKeys[step/3%3], lifeKeys[(step/3+1)%3]
	text := map[int]string{0: old, 1: old + "\n" + fresh, 2: fresh + "\n" + old}[step%3]
	if err := os.WriteFile(h.keyFile, []byte(text+"\n"), 0o600); err != nil {
		v.t.Fatal(err)
	}
}

func (v *village) reload(h *villager) {
	v.t.Helper()
	c, err := settings.Parse("heels.yaml", []byte(v.text(h)))
	if err != nil {
		v.t.Fatal(err)
	}
	if err := heelstest.Enter(h.NS, func() error { return h.agent.Reload(c) }); err != nil {
		v.t.Errorf("reload: %v", err)
	}
}

// open begins to listen, at both families.
func (v *village) open() {
	v.listener = v.server.listen(":80", v.serve)
	v.isOpen.Store(true)
}

func (v *village) shut() {
	v.closed.Add(1)
	v.isOpen.Store(false)
	v.listener.Close()
}

func (v *village) act() {
	switch n := v.IntN(100); {
	case n < 55:
		v.some()
	case n < 62:
		v.actListener()
	case n < 70:
		v.actInterface()
	case n < 76:
		v.actAgent()
	case n < 82:
		v.actKeys()
	case n < 90:
		v.actVIPs()
	case n < 95:
		v.actDrain()
	default:
		time.Sleep(time.Duration(v.IntN(300)) * time.Millisecond)
	}
	time.Sleep(time.Duration(v.IntN(40)) * time.Millisecond)
}

func (v *village) either() *villager { return v.hosts()[v.IntN(2)] }

func (v *village) actListener() {
	v.note("the listener is closed")
	v.shut()
	time.Sleep(time.Duration(v.IntN(100)) * time.Millisecond)
	v.note("and opened")
	v.open()
}

// actInterface deletes an interface, and makes it again as it was.
func (v *village) actInterface() {
	h := v.either()
	v.away.Add(1)
	v.isAway.Store(true)
	v.note("the interface of the %s is deleted", h.role)
	h.Unplug()
	time.Sleep(time.Duration(v.IntN(500)) * time.Millisecond)
	v.wire(h)
	v.note("and made again")
	v.isAway.Store(false)
	v.away.Add(1)
}

// wire makes a host's interface again, with its own address of the link layer.
func (v *village) wire(h *villager) {
	v.t.Helper()
	v.r.wireUpAs(h.host, h.mac, func() {
		v.narrow(h)
		// What a connection sends before the programs are there goes astray, and a reset comes back (docs/heels.md): whoever makes an interface gives it addresses last.
		eventually(v.t, "the programs are in force", func() bool { return h.attached() == 2 })
	}, h.addresses...)
	if v.way.name != "encapsulating" || h.role != ClientRole {
		return
	}
	heelstest.Within(v.t, h.NS, func() error {
		_, dst, _ := net.ParseCIDR(testVIP + "/32")
		return netlink.RouteAdd(&netlink.Route{Dst: dst, Gw: net.ParseIP(testBalancer)})
	})
}

// wireUpAs is Wire.Connect with an address of the link layer, and with something to do before the interface is up.
func (r *rig) wireUpAs(h *host, mac net.HardwareAddr, before func(), addresses ...string) {
	r.t.Helper()
	heelstest.Within(r.t, r.wire.NS, func() error {
		v := netlink.NewVeth(netlink.LinkAttrs{Name: h.Name})
		v.PeerName, v.PeerNamespace, v.PeerHardwareAddr = "eth0", netlink.NsFd(h.NS), mac
		if err := netlink.LinkAdd(v); err != nil {
			return err
		}
		br, err := netlink.LinkByName("br0")
		if err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetMaster(v, br), netlink.LinkSetUp(v))
	})
	before()
	heelstest.Within(r.t, h.NS, func() error {
		var err error
		for _, a := range addresses {
			err = errors.Join(err, heelstest.AddAddr("eth0", a+"/16"))
		}
		return errors.Join(err, heelstest.LinkUp("eth0"))
	})
}

// actAgent succeeds an agent, or kills it for a while, or detaches it, which is refused while connections depend on it.
func (v *village) actAgent() {
	h := v.either()
	switch v.IntN(3) {
	case 0:
		v.note("the agent of the %s is succeeded", h.role)
	case 1:
		v.note("the agent of the %s is killed", h.role)
		h.agent.Close()
		h.agent = nil
	case 2:
		if v.way.serves {
			v.detach(h)
		}
	}
	if h.agent == nil {
		time.Sleep(time.Duration(v.IntN(200)) * time.Millisecond)
	}
	v.begin(h)
	v.note("an agent of the %s has begun", h.role)
}

func (v *village) detach(h *villager) {
	var flows *FlowsError
	err := heelstest.Enter(h.NS, func() error { return h.agent.Detach(false) })
	v.note("the agent of the %s is detached: %v", h.role, err)
	if err != nil {
		if !errors.As(err, &flows) {
			v.t.Errorf("detach: %v", err)
		}
		return
	}
	h.agent.Close()
	h.agent = nil
}

// actKeys does one step of an exchange on one host, or ends it: each step is done everywhere before the next.
func (v *village) actKeys() {
	if v.keys == 0 {
		return
	}
	h := v.hosts()[v.keyStep%2]
	v.keyStep++
	step := (v.keyStep + 1) / 2
	v.note("keys of the %s: step %d", h.role, step)
	v.writeKeys(h, step)
	v.reload(h)
}

// actVIPs names other VIPs, and for a while leaves out the one that there are connections to.
func (v *village) actVIPs() {
	h := v.either()
	h.others = 1 + v.IntN(3)
	h.without = v.IntN(3) == 0 && (v.way.serves || h.role == ClientRole)
	v.note("VIPs of the %s: without %t, %d others", h.role, h.without, h.others)
	v.reload(h)
	if !h.without {
		return
	}
	v.some()
	h.without = false
	v.reload(h)
	v.note("VIPs of the %s are as they were", h.role)
}

// some are a few connections more.
func (v *village) some() {
	for range 1 + v.IntN(8) {
		v.talk()
	}
	time.Sleep(time.Duration(v.IntN(60)) * time.Millisecond)
}

func (v *village) actDrain() {
	h := v.either()
	v.note("the %s drains", h.role)
	for _, on := range []bool{true, false} {
		if err := h.agent.SetDraining(h.role, on); err != nil {
			v.t.Errorf("drain: %v", err)
		}
		v.some()
	}
}

// rest lets everything end.
func (v *village) rest() {
	v.note("all come to rest")
	close(v.over)
	v.talks.Wait()
	v.note("%d connections were there, %d have ended as they should, %d were lost", v.started.Load(), v.ended.Load(), v.lost.Load())
	v.t.Logf("%s: %d connections, %d around the balancer; client: %v, server: %v", v.way.name, v.started.Load(), v.client.agent.count(v.t, "direct")+v.client.agent.count(v.t, "confirm_switched"), dump(v.t, v.client.agent), dump(v.t, v.server.agent))
}

// mustBeEmpty demands that nothing is left: no socket, no entry, no end that is not told, no program, no pin.
func (v *village) mustBeEmpty() {
	t := v.t
	t.Helper()
	v.shut()
	for _, h := range v.hosts() {
		eventually(t, "the "+string(h.role)+" has no connection", func() bool { return live(t, h.agent) == 0 })
		for name, state := range map[string]string{"established": established, "close_wait": closeWait, "last_ack": lastAck, "syn_recv": synReceived} {
			eventually(t, fmt.Sprintf("the %s has no socket in %s", h.role, name), func() bool { return h.sockets(state) == 0 })
		}
	}
	s := v.server.agent
	var key kernel.Tuple
	var e kernel.Confirmed
	if entries := s.maps.HeelsConfirmed.Iterate(); entries.Next(&key, &e) {
		t.Errorf("an entry of a connection is left: %s to %s: %+v", kernel.AddrPort(key.Remote), kernel.AddrPort(key.Local), e)
	}
	for _, h := range v.hosts() {
		heelstest.Within(t, h.NS, func() error { return h.agent.Detach(false) })
		if n := h.attached(); n != 0 {
			t.Errorf("%d programs are left at the interface of the %s", n, h.role)
		}
		if _, err := os.Stat(h.pin); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("pins of the %s are left: %v", h.role, err)
		}
	}
	for _, queue := range []*ebpf.Map{s.maps.HeelsEndedNow, s.maps.HeelsEndedLater} {
		if isWaiting(queue) {
			t.Errorf("%s: an end is not told", queue)
		}
	}
	v.mustBeForgotten()
	dir, err := os.Open(testCgroup)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	q, err := link.QueryPrograms(link.QueryOptions{Target: int(dir.Fd()), Attach: ebpf.AttachCGroupSockOps})
	if err != nil || len(q.Programs) != 0 {
		t.Errorf("%d programs are left at the cgroup, %v", len(q.Programs), err)
	}
}

// mustBeForgotten: in confirm mode the balancer holds no connection for a live one.
func (v *village) mustBeForgotten() {
	if !strings.Contains(v.way.server, "confirm") {
		return
	}
	held := func() (text string) {
		heelstest.Within(v.t, v.r.lb.NS, func() error {
			flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
			for _, f := range flows {
				if tcp, ok := f.ProtoInfo.(*netlink.ProtoInfoTCP); ok && tcp.State == 3 {
					text += fmt.Sprintf("%v:%d ", f.Forward.SrcIP, f.Forward.SrcPort)
				}
			}
			return err
		})
		return text
	}
	eventually(v.t, "the balancer holds no connection as established", func() bool { return held() == "" })
}

// target is where clients connect to, now and then the server's own address.
func (v *village) target() (address string, port int) {
	to := v.way.vip
	switch v.IntN(10) {
	case 0:
		to = v.server.addresses[len(v.server.addresses)-1]
		// Of two connections with the same ends on the wire the second waits for the first.
		return netip.AddrPortFrom(netip.MustParseAddr(to), 80).String(), 23000 + v.IntN(1000)
	case 1, 2, 3:
		port = 21000 + v.IntN(12)
	}
	return net.JoinHostPort(to, "80"), port
}

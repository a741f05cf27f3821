// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/heels/balancer"
	"github.com/xlb-project/xlb/test/heels/stand"
)

// adminAddress is the agents', each on its own host.
const adminAddress = "127.0.0.1:9902"

// agent is a HEELS agent of one host.
type agent struct {
	b      *bed
	host   *stand.Host
	config string
	p      *lab.Process
}

// mode is what a server's configuration calls a way of delivery.
func (w way) mode() string {
	switch {
	case w.rewriting == nil:
		return "encapsulated"
	case w.rewriting.Masquerade:
		return "rewritten"
	}
	return "preserved"
}

// sources are where SYNs come to servers from, "" where they come from clients.
func (w way) sources() string {
	outer6 := w.vip.Is6() != w.across
	switch {
	case w.mode() == "preserved":
		return ""
	case w.rewriting == nil && w.encapsulation == balancer.IPIP && outer6:
		return "100::/64"
	case w.rewriting == nil && w.encapsulation == balancer.IPIP:
		return "172.16.0.0/16"
	case outer6:
		return stand.Balancers6
	}
	return stand.Balancers
}

// choose returns the value for the way's family.
func (w way) choose(v4, v6 string) string {
	if w.vip.Is6() {
		return v6
	}
	return v4
}

// clientConfig is the configuration of the client's agent; more VIPs than the way's own may be given.
func (b *bed) clientConfig(w way, more ...netip.AddrPort) string {
	var c strings.Builder
	fmt.Fprintf(&c, "kind: heels\ncgroup: %s\ninterfaces: [%s]\n%sclient:\n  vips:\n", b.Client.Cgroup(), stand.Link, b.option)
	for _, vip := range append([]netip.AddrPort{w.target()}, more...) {
		fmt.Fprintf(&c, "  - { vip: %q, backends: [%q] }\n", vip, w.choose(stand.Servers, stand.Servers6))
	}
	return c.String()
}

// serverConfig is the configuration of a server's agent.
func (b *bed) serverConfig(w way, h *stand.Host, more ...netip.AddrPort) string {
	var c strings.Builder
	fmt.Fprintf(&c, "kind: heels\ncgroup: %s\ninterfaces: [%s]\n%sserver:\n  address: [%q, %q]\n  vips:\n", h.Cgroup(), stand.Link, b.option, h.Address(), h.Address6())
	for _, vip := range append([]netip.AddrPort{w.target()}, more...) {
		fmt.Fprintf(&c, "  - { vip: %q, port: %d, mode: %s, clients: [%q]", vip, w.serverPort(), w.mode(), w.choose(stand.Clients, stand.Clients6))
		if w.confirm {
			c.WriteString(", confirm: true")
		}
		if from := w.sources(); from != "" {
			fmt.Fprintf(&c, ", balancers: [%q]", from)
		}
		c.WriteString(" }\n")
	}
	return c.String()
}

// agents starts the agents of the client and of all servers.
func (b *bed) agents(w way, more ...netip.AddrPort) map[*stand.Host]*agent {
	b.t.Helper()
	all := map[*stand.Host]*agent{b.Client: b.launch(b.Client, b.clientConfig(w, more...))}
	for _, h := range b.Servers {
		all[h] = b.launch(h, b.serverConfig(w, h, more...))
	}
	for _, a := range all {
		a.await()
	}
	return all
}

// agent starts one.
func (b *bed) agent(h *stand.Host, config string) *agent {
	b.t.Helper()
	a := b.launch(h, config)
	a.await()
	return a
}

// launch starts one that may not be ready yet.
func (b *bed) launch(h *stand.Host, config string) *agent {
	b.t.Helper()
	mountPins(b.t)
	a := &agent{b: b, host: h, config: filepath.Join(b.t.TempDir(), h.Name+".yaml")}
	must(b.t, os.WriteFile(a.config, []byte(config), 0o644))
	a.launch()
	b.t.Cleanup(func() {
		must(b.t, a.p.Stop())
		// What outlives the agent for the sake of its connections.
		must(b.t, os.RemoveAll(a.pins()))
	})
	return a
}

// pins is where the agent keeps what outlives it.
func (a *agent) pins() string { return filepath.Join(pins, filepath.Base(a.host.Cgroup())) }

// start starts the agent, again if it has ended, and waits until it is ready.
func (a *agent) start() {
	a.b.t.Helper()
	a.launch()
	a.await()
}

func (a *agent) launch() {
	t := a.b.t
	t.Helper()
	binary := os.Getenv("XLB_BIN")
	if binary == "" {
		t.Fatal("XLB_BIN is not set: name the xlb binary, as make test-e2e does")
	}
	p, err := a.host.StartOutside("agent", binary, "heels", "run", "--config", a.config, "--pin", a.pins(), "--admin", adminAddress)
	must(t, err)
	a.p = p
}

// await waits until the agent is ready.
func (a *agent) await() {
	t := a.b.t
	t.Helper()
	harness.Eventually(t, patience, "agent on "+a.host.Name+" is ready", func() bool {
		if err := a.p.Exited(); err != nil {
			t.Fatal(err)
		}
		_, err := a.get("/ready")
		return err == nil
	})
}

// stop ends the agent; its programs stay if they are pinned.
func (a *agent) stop() {
	a.b.t.Helper()
	must(a.b.t, a.p.Stop())
}

// get asks the agent's admin address.
func (a *agent) get(path string) (string, error) { return a.host.Get("http://" + adminAddress + path) }

// retransmits is how many segments the client and the servers sent again, SYNs included.
func (b *bed) retransmits() (n int64) {
	b.t.Helper()
	for _, h := range b.ends() {
		n += got2(h.TCP())(b.t)["RetransSegs"]
	}
	return n
}

// resets are those that crossed the network so far.
func (b *bed) resets() stand.Resets {
	b.t.Helper()
	return got2(b.Resets())(b.t)
}

// unhurt fails the test if a reset crossed the network that is not a late one.
func (b *bed) unhurt() {
	b.t.Helper()
	r := b.resets()
	if r.Harmful != 0 {
		b.t.Errorf("%d resets were sent, want none but late ones; the first: %v", r.Harmful, r.First)
	}
	if r.Late != 0 {
		b.t.Logf("%d resets answered a second acknowledgement of their sender's end", r.Late)
	}
}

// broken is how many established connections the client and the servers lost by a reset.
func (b *bed) broken() (n int64) {
	b.t.Helper()
	for _, h := range b.ends() {
		n += got2(h.TCP())(b.t)["EstabResets"]
	}
	return n
}

// ends are the client and the servers.
func (b *bed) ends() []*stand.Host { return append([]*stand.Host{b.Client}, b.Servers...) }

// onlyHandshakes runs do, which makes n connections, and fails the test unless each sent one SYN through the balancer and nothing else.
func (b *bed) onlyHandshakes(n int, do func()) {
	b.t.Helper()
	again := b.retransmits()
	p := b.seen(b.LB, do)
	again = b.retransmits() - again
	// A SYN that was lost on the way comes again.
	if p.In < uint64(n) || p.In > uint64(n)+uint64(again) || p.Out != p.In {
		b.t.Errorf("%d packets came to the balancer and %d left it (%d and %d bytes) for %d connections with %d retransmits; want a SYN for each and nothing else",
			p.In, p.Out, p.BytesIn, p.BytesOut, n, again)
	}
}

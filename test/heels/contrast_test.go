// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"math/bits"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/xlb-project/xlb/test/heels/traffic"
	"github.com/xlb-project/xlb/test/suite"
)

// agentPrograms is the agent's object file.
const agentPrograms = "../../internal/heels/kernel/kernel_bpfel.o"

// The option's number by default (docs/heels.md).
const optionExID = 0x4845

// forget gives the agent's programs, in their place, a memory of their own for packets without a full socket, with room for one connection: what is
// left is the state of sockets, as the HEELS paper has it.
func (a *agent) forget() {
	t := a.b.t
	t.Helper()
	spec, err := ebpf.LoadCollectionSpec(agentPrograms)
	must(t, err)
	for _, m := range spec.Maps {
		switch {
		case strings.HasSuffix(m.Name, "_closing"):
			m.MaxEntries = 1
		case m.Name != ".rodata":
			m.Pinning = ebpf.PinByName
		}
	}
	must(t, spec.Variables["heels_kind"].Set(uint8(optionKind)))
	must(t, spec.Variables["heels_exid"].Set(bits.ReverseBytes16(optionExID)))
	c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Maps: ebpf.MapOptions{PinPath: a.pins()}})
	must(t, err)
	defer c.Close()
	links, err := filepath.Glob(filepath.Join(a.pins(), "link_*"))
	must(t, err)
	if len(links) == 0 {
		t.Fatalf("the agent on %s has pinned no link in %s", a.host.Name, a.pins())
	}
	for _, path := range links {
		name, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), "link_"), "-")
		program := c.Programs["heels_"+name]
		if program == nil {
			t.Fatalf("%s has no program for %s", agentPrograms, path)
		}
		l, err := link.LoadPinnedLink(path, nil)
		must(t, err)
		must(t, l.Update(program))
		l.Close()
	}
}

// TestSocketsAloneCannotEndConnections holds what the other tests compare with: where only sockets remember, as in the paper, last acknowledgements go
// astray. If this fails, the kernel has learnt something, or those tests show nothing.
func TestSocketsAloneCannotEndConnections(t *testing.T) {
	suite.Long(t, suite.Slow)
	for _, order := range []traffic.Order{traffic.ClientFirst, traffic.ServerFirst} {
		each(t, []way{masquerading, encapsulating}, func(t *testing.T, b *bed, w way) {
			b.balance(w)
			b.serve(w.serverPort())
			for _, a := range b.agents(w) {
				a.forget()
			}
			const late = 500 * time.Millisecond
			o := crowd(w, order, late)
			o.Connections = 2000
			p := b.seen(b.LB, func() {
				complete(t, o, b.ask(o))
				// The other side's end comes late, when the first one's socket is no longer whole.
				time.Sleep(late + 2*time.Second)
			})
			open, resets := b.open(), b.resets().Harmful
			t.Logf("%s first: %d packets came to the balancer for %d connections; sockets that have not ended after 2 s: %v; resets: %d", order, p.In, o.Connections, open, resets)
			// A balancer with a table of hashes and not of connections brings a client's last acknowledgement to the right server.
			astray := int(p.In) - o.Connections
			if w.rewriting != nil || order == traffic.ServerFirst {
				astray = open["LAST-ACK"] + int(resets)
			}
			if astray < o.Connections/2 {
				t.Errorf("%d last acknowledgements of %d connections went astray", astray, o.Connections)
			}
		})
	}
}

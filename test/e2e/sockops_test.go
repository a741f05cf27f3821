// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// Of include/uapi/linux/bpf.h.
const (
	stateFlag  = 1 << 2 // BPF_SOCK_OPS_STATE_CB_FLAG
	tripFlag   = 1 << 3 // BPF_SOCK_OPS_RTT_CB_FLAG
	clientCall = 4      // BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB
	stateCall  = 10     // BPF_SOCK_OPS_STATE_CB
	tcpClose   = 7      // BPF_TCP_CLOSE
)

// Flags of sock_ops programs are one word for all programs of a socket. Whatever others write there: every request is answered, nobody waits, and nothing
// is left.
func TestOtherSockOpsProgramsMaySetAnyFlags(t *testing.T) {
	harness.OnlyXLB(t, "it looks at XLB's maps")
	if !harness.FastPath(t) {
		t.Skip("needs a kernel that can run the fast path: 6.12")
	}
	for _, tt := range []struct {
		name  string
		flags int32
	}{{"none", 0}, {"round trips alone", tripFlag}, {"states and round trips", stateFlag | tripFlag}} {
		t.Run(tt.name, func(t *testing.T) {
			place := harness.SameHost(t)
			balancer, _, service := oneServerWithoutTimeout(t, harness.Mode{Fast: true}, place, place)
			// Behind XLB's: it has the last word.
			attachSockOps(t, place, settingFlags(tt.flags))

			requireClean(t, runLoad(t, place, programs.LoadSpec{Address: service, Connections: 8, Requests: 20}))
			if balancer.Metric(t, "xlb_requests_total", `path="fast"`) == 0 {
				t.Error("no request took the fast path")
			}
			report := runExchange(t, place, netip.MustParseAddrPort(service), 5*time.Second, programs.Step{HalfClose: true}, programs.Step{End: true})
			if report.Timeout {
				t.Errorf("a client that half-closes still waits: %s", report.Error)
			}
			// As in TestClientsThatCloseAmidSegmentsLeaveNoState.
			request := get("/body?seed=1&size=100000000&framing=length")
			var churn programs.ChurnReport
			place.Program(t, programs.ChurnProgram, programs.ChurnSpec{
				Address: service, Connections: 200, Concurrency: 8, Say: request + request, Take: 300_000,
			}).Next(t, &churn)
			if churn.Problem != "" {
				t.Errorf("connections: %d in order, one failed: %s", churn.Opened, churn.Problem)
			}
			harness.Eventually(t, patience, "nothing is left of closed connections", func() bool {
				return balancer.MapEntries(t, "receive_sequences") == 0 && balancer.MapEntries(t, "slow_conns") == 0 && balancer.MapEntries(t, "conns") == 0
			})
		})
	}
}

// XLB leaves flags that it does not need any more: another program may need them.
func TestOtherSockOpsProgramsSeeEverySocketClose(t *testing.T) {
	harness.OnlyXLB(t, "it is about XLB's programs")
	if !harness.FastPath(t) {
		t.Skip("needs a kernel that can run the fast path: 6.12")
	}
	const connections = 48
	place := harness.SameHost(t)
	_, _, service := oneServerWithoutTimeout(t, harness.Mode{Fast: true}, place, place)
	opened, closed := counter(t), counter(t)
	attachSockOps(t, place, countingClients(opened, closed))
	var churn programs.ChurnReport
	place.Program(t, programs.ChurnProgram, programs.ChurnSpec{Address: service, Connections: connections, Concurrency: 4, Say: get("/ok"), Take: 10}).Next(t, &churn)
	if churn.Problem != "" {
		t.Errorf("connections: %d in order, one failed: %s", churn.Opened, churn.Problem)
	}
	harness.Eventually(t, patience, "every client that connected is seen to close", func() bool {
		n := count(t, opened)
		return n >= connections && count(t, closed) == n
	})
}

// settingFlags sets flags at the end of a handshake and at every other call, whatever there was.
func settingFlags(flags int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Imm(asm.R2, flags),
		asm.FnSockOpsCbFlagsSet.Call(),
		asm.Mov.Imm(asm.R0, 1),
		asm.Return(),
	}
}

// countingClients counts the sockets that connect in order, and those that close, and has the flag for that alone.
func countingClients(opened, closed *ebpf.Map) asm.Instructions {
	add := func(m *ebpf.Map, label string) asm.Instructions {
		return asm.Instructions{
			asm.StoreImm(asm.RFP, -4, 0, asm.Word).WithSymbol(label),
			asm.LoadMapPtr(asm.R1, m.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -4),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "end"),
			asm.Mov.Imm(asm.R1, 1),
			asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
		}
	}
	const op, newState = 0, 8 // of struct bpf_sock_ops
	is := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R6, op, asm.Word),
		asm.JEq.Imm(asm.R7, clientCall, "connected"),
		asm.JNE.Imm(asm.R7, stateCall, "end"),
		asm.LoadMem(asm.R8, asm.R6, newState, asm.Word),
		asm.JNE.Imm(asm.R8, tcpClose, "end"),
	}
	is = append(is, add(closed, "")...)
	is = append(is, asm.Ja.Label("end"))
	is = append(is, add(opened, "connected")...)
	return append(is,
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Imm(asm.R2, stateFlag),
		asm.FnSockOpsCbFlagsSet.Call(),
		asm.Mov.Imm(asm.R0, 1).WithSymbol("end"),
		asm.Return())
}

func counter(t *testing.T) *ebpf.Map {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func count(t *testing.T, m *ebpf.Map) (n uint64) {
	t.Helper()
	if err := m.Lookup(uint32(0), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// attachSockOps attaches a program to a place's cgroup, behind those that there are, until the test ends.
func attachSockOps(t *testing.T, place *harness.Place, instructions asm.Instructions) {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SockOps, AttachType: ebpf.AttachCGroupSockOps, Instructions: instructions, License: "Dual BSD/GPL"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	l, err := link.AttachCgroup(link.CgroupOptions{Path: place.Cgroup(), Attach: ebpf.AttachCGroupSockOps, Program: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
}

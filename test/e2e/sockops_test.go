// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/xlb-project/xlb/test/await"
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
	_, server, service := oneServerWithoutTimeout(t, harness.Mode{Fast: true}, place, place)
	opened, left := counter(t), newMap(t, &ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 8, MaxEntries: 16 * connections})
	attachSockOps(t, place, countingClients(server.Address.Port(), opened, left))
	var churn programs.ChurnReport
	place.Program(t, programs.ChurnProgram, programs.ChurnSpec{Address: service, Connections: connections, Concurrency: 4, Say: get("/ok"), Take: 10}).Next(t, &churn)
	if churn.Problem != "" {
		t.Errorf("connections: %d in order, one failed: %s", churn.Opened, churn.Problem)
	}
	await.Quiet(t, func() string {
		var cookie, one uint64
		open := 0
		for entries := left.Iterate(); entries.Next(&cookie, &one); {
			open++
		}
		if n := count(t, opened); n < connections || open > 0 {
			return fmt.Sprintf("of %d clients %d are seen to connect, %d of them not to close", connections, n, open)
		}
		return ""
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

// countingClients counts the sockets that connect in order, and keeps in a map which of them have not closed. It has the flag for that alone.
// Connections to the endpoint's port are the daemon's: it opens some while clients come, and keeps them.
func countingClients(endpoint uint16, opened, left *ebpf.Map) asm.Instructions {
	const op, newState, remotePort = 0, 8, 64 // of struct bpf_sock_ops
	const key, value = -8, -16                // in the stack
	// cookie puts the socket's into the stack.
	cookie := func(label string) asm.Instructions {
		return asm.Instructions{
			asm.Mov.Reg(asm.R1, asm.R6).WithSymbol(label),
			asm.FnGetSocketCookie.Call(),
			asm.StoreMem(asm.RFP, key, asm.R0, asm.DWord),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, key),
			asm.LoadMapPtr(asm.R1, left.FD()),
		}
	}
	is := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R6, op, asm.Word),
		asm.JEq.Imm(asm.R7, clientCall, "connected"),
		asm.JNE.Imm(asm.R7, stateCall, "end"),
		asm.LoadMem(asm.R8, asm.R6, newState, asm.Word),
		asm.JNE.Imm(asm.R8, tcpClose, "end"),
	}
	is = append(is, cookie("closed")...)
	is = append(is, asm.FnMapDeleteElem.Call(), asm.Ja.Label("end"),
		// In network byte order.
		asm.LoadMem(asm.R7, asm.R6, remotePort, asm.Word).WithSymbol("connected"),
		asm.HostTo(asm.BE, asm.R7, asm.Word),
		asm.JEq.Imm(asm.R7, int32(endpoint), "end"))
	is = append(is, cookie("client")...)
	return append(is,
		asm.Mov.Imm(asm.R3, 1),
		asm.StoreMem(asm.RFP, value, asm.R3, asm.DWord),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, value),
		asm.Mov.Imm(asm.R4, 0), // BPF_ANY
		asm.FnMapUpdateElem.Call(),
		asm.StoreImm(asm.RFP, key, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, opened.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, key),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"),
		asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Imm(asm.R2, stateFlag),
		asm.FnSockOpsCbFlagsSet.Call(),
		asm.Mov.Imm(asm.R0, 1).WithSymbol("end"),
		asm.Return())
}

func counter(t *testing.T) *ebpf.Map {
	t.Helper()
	return newMap(t, &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
}

func newMap(t *testing.T, spec *ebpf.MapSpec) *ebpf.Map {
	t.Helper()
	m, err := ebpf.NewMap(spec)
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

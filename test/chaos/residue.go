// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/violation"
)

// Residue is what is there while nobody asks for anything.
type Residue struct {
	// Leases, Requests and Connections are in use, by the metrics.
	Leases      int `json:"leases"`
	Requests    int `json:"requests"`
	Connections int `json:"connections"`
	// Slots by state.
	Ready int `json:"slots_ready"`
	Lost  int `json:"slots_ready_in_no_stack"`
	// MostDead is the largest number of closed slots in one endpoint's stack.
	MostDead int `json:"slots_dead_in_one_stack"`
	// Held are neither ready nor free, nor closed ones in a stack.
	Held []string `json:"slots_held"`
	// Local are the ready slots whose endpoint is on this host.
	Local int `json:"slots_local"`
	// Reset are the connections that have been reset while a server on this host still holds its socket. The socket has its entry until then.
	Reset int `json:"server_sockets_reset"`
	// Counted are the requests in flight that circuit breakers count, by entry; Asking the pools for which the kernel waits for more
	// i-socks, and does not ask again meanwhile. Both leave out what is 0. Leased are the leases that pools count.
	Counted map[uint32]int `json:"requests_counted"`
	Asking  []uint32       `json:"pools_asking"`
	Leased  int            `json:"leases_counted"`
	// Entries of the maps that follow connections.
	Entries map[string]int `json:"entries"`
	// Sockets of the daemon: to clients, and to endpoints beyond those of the slots.
	ClientSockets int `json:"client_sockets"`
	SpareSockets  int `json:"spare_sockets"`
	// Memory of the daemon and of TCP on this machine, in bytes.
	Memory    int64 `json:"memory"`
	TCPMemory int64 `json:"tcp_memory"`
}

// followed are the maps that have entries for connections.
var followed = []string{"conns", "slow_conns", "psocks", "peers", "isock_slots", "isocks", "ssocks", "receive_sequences"}

// look takes stock.
func (r *run) look() Residue {
	var endpoints []netip.AddrPort
	for _, s := range r.servers {
		endpoints = append(endpoints, s.address)
	}
	return Look(r, r.balancer, endpoints)
}

// Look takes stock of a balancer with these endpoints.
func Look(t testing.TB, b *harness.Balancer, endpoints []netip.AddrPort) Residue {
	t.Helper()
	now := Residue{
		Leases:      int(b.Metric(t, "xlb_leases_active")),
		Requests:    int(b.Metric(t, "envoy_cluster_upstream_rq_active")),
		Connections: int(b.Metric(t, "xlb_connections_active")),
		Entries:     map[string]int{},
		Memory:      b.Memory(t),
		TCPMemory:   harness.TCPMemory(t),
	}
	if b.Mode.Fast {
		for _, name := range followed {
			now.Entries[name] = b.MapEntries(t, name)
		}
		now.Reset = b.ResetServerSockets(t)
		now.lookAtSlots(b.Slots(t))
		now.lookAtCounts(b.Loads(t), b.Pools(t))
	}
	now.lookAtSockets(t, b, endpoints)
	return now
}

func (now *Residue) lookAtSlots(slots []maps.Slot) {
	dead := map[uint32]int{}
	for i, slot := range slots {
		switch maps.SlotState(slot.State) {
		case maps.SlotFree:
		case maps.SlotReady:
			now.Ready++
			if slot.Stacked == 0 {
				now.Lost++
			}
			if slot.Flags&uint32(maps.SlotLocal) != 0 {
				now.Local++
			}
		case maps.SlotBroken:
			if slot.Stacked != 0 {
				// Freed when the stack is next used as far down, or holds many.
				dead[slot.Pool]++
				continue
			}
			fallthrough
		default:
			now.Held = append(now.Held, fmt.Sprintf("slot %d: state %d, in a stack %d, pending %d, flags %d, endpoint %d, request %d, status %d, spill %d, sent %d, moved %d",
				i, slot.State, slot.Stacked, slot.Pending, slot.Flags, slot.Endpoint, slot.Request, slot.Status, slot.Spill, slot.Sent, slot.Moved))
		}
	}
	for _, n := range dead {
		now.MostDead = max(now.MostDead, n)
	}
}

func (now *Residue) lookAtCounts(sets []maps.LoadSet, pools []maps.Pool) {
	now.Counted = map[uint32]int{}
	for i := range sets {
		for j, l := range sets[i].Loads {
			if l != (maps.Load{}) {
				now.Counted[uint32(i*len(sets[i].Loads)+j)] = int(int32(l.Active)) + int(int32(l.Waiting))
			}
		}
	}
	for i, p := range pools {
		if p.Want != 0 {
			now.Asking = append(now.Asking, uint32(i))
		}
		now.Leased += int(int32(p.Leased))
	}
}

func (now *Residue) lookAtSockets(t testing.TB, b *harness.Balancer, endpoints []netip.AddrPort) {
	toEndpoints := 0
	for _, s := range b.Sockets(t) {
		switch {
		case s.Listens, s.Local.Port() == b.Admin.Port():
		case slices.Contains(endpoints, s.Remote):
			toEndpoints++
		default:
			now.ClientSockets++
		}
	}
	now.SpareSockets = toEndpoints - now.Ready
}

// Bounds of what may be left, each for a reason of its own.
const (
	// settlePatience is how long it may take: the kernel frees sockets after grace periods.
	settlePatience = 60 * time.Second
	// spareSockets are idle connections of the slow path, kept for an hour; at most as many as requests at once.
	spareSockets = clientProcesses * workersPerProcess
	// deadInStack is how many closed slots the pool lets lie in an endpoint's stack before it cleans that.
	deadInStack = 8
	// tcpMemorySlack is what idle connections and other users of this machine may hold more than before.
	tcpMemorySlack = 16 << 20
	// memoryFactor and memorySlack bound the daemon's growth from an early moment to the end: the garbage collector lets
	// the heap double.
	memoryFactor = 1.5
	memorySlack  = 16 << 20
)

// Problems says what is left that should not be.
func (now *Residue) Problems(before *Residue, fast bool) []string {
	var found []string
	want := func(what string, got, limit int) {
		if got > limit || limit == 0 && got != 0 {
			found = append(found, fmt.Sprintf("%s: got %d, want %d", what, got, limit))
		}
	}
	want("leases", now.Leases, 0)
	want("requests in flight", now.Requests, 0)
	want("client connections", now.Connections, 0)
	want("sockets to clients", now.ClientSockets, 0)
	want("idle sockets of the slow path, at most", now.SpareSockets, spareSockets)
	want("MB of TCP memory more than before, at most", int(now.TCPMemory-before.TCPMemory)>>20, tcpMemorySlack>>20)
	if !fast {
		return found
	}
	found = append(found, now.Held...)
	want("closed slots in one stack, at most", now.MostDead, deadInStack)
	want("ready slots in no stack", now.Lost, 0)
	for index, n := range now.Counted {
		found = append(found, fmt.Sprintf("circuit breakers: entry %d counts %d requests in flight, want none", index, n))
	}
	for _, index := range now.Asking {
		found = append(found, fmt.Sprintf("pool %d: waits for i-socks that it has asked for; the daemon opens no more, and it asks no more", index))
	}
	want("leases that pools count", now.Leased, 0)
	for _, name := range []string{"conns", "slow_conns", "psocks"} {
		want("entries of "+name, now.Entries[name], 0)
	}
	want("entries of receive_sequences, one for each server's socket at most", max(now.Entries["receive_sequences"]-now.Entries["ssocks"], 0), 0)
	for name, slots := range map[string]int{"peers": now.Ready, "ssocks": now.Local + now.Reset, "isocks": now.Ready - now.Local, "isock_slots": now.Ready - now.Local} {
		want("entries of "+name+", as many as slots", now.Entries[name]-slots, 0)
	}
	return found
}

// compare fails the test if what was there before the storm does not come back.
func (r *run) compare(before Residue) {
	after := r.look()
	deadline := time.Now().Add(settlePatience)
	for len(after.Problems(&before, r.options.Mode.Fast)) > 0 && time.Now().Before(deadline) {
		time.Sleep(time.Second)
		after = r.look()
	}
	r.summary.Before, r.summary.After = before, after
	for _, p := range after.Problems(&before, r.options.Mode.Fast) {
		violation.Errorf(r, "%v after the load: %s", settlePatience, p)
	}
	r.compareMemory()
	if r.Failed() {
		r.Logf("metrics that are not zero:\n%s", NonZero(r.balancer.Get(r, "/metrics")))
	}
}

// earlySample is the index of a sample of the daemon's memory once the load has
// been everywhere: two minutes after the start, as samples come every ten seconds.
const earlySample = 11

// compareMemory holds the daemon's memory to its bound in runs that are long enough to tell.
func (r *run) compareMemory() {
	samples := r.summary.DaemonMemory
	if len(samples) <= 2*earlySample {
		return
	}
	early, end := samples[earlySample], r.balancer.Memory(r)
	if limit := int64(memoryFactor*float64(early)) + memorySlack; end > limit {
		r.Errorf("memory of the daemon: %d kB at the end, %d kB after two minutes; want at most %d kB", end>>10, early>>10, limit>>10)
	}
}

// NonZero are XLB's samples that say something.
func NonZero(metrics string) string {
	var b strings.Builder
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "xlb_") && !strings.HasSuffix(line, " 0\n") {
			b.WriteString(line)
		}
	}
	return b.String()
}

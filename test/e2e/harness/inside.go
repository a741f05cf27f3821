// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/test/violation"
)

// maxName is how much of a map's name the kernel keeps.
const maxName = 15

// maps opens all of a name: the pages of an array that grows have its own. The caller closes them.
func (b *Balancer) maps(t testing.TB, name string) (all []*ebpf.Map) {
	t.Helper()
	for _, o := range kernelObjects(t, b.PID()) {
		if o.kind != "map_id" {
			continue
		}
		m, err := ebpf.NewMapFromID(ebpf.MapID(o.id))
		if errors.Is(err, os.ErrNotExist) {
			continue // closed in between
		}
		if err != nil {
			t.Fatalf("open map %d of the daemon: %v", o.id, err)
		}
		info, err := m.Info()
		if err != nil {
			t.Fatalf("describe map %d of the daemon: %v", o.id, err)
		}
		if info.Name == name[:min(len(name), maxName)] {
			all = append(all, m)
			continue
		}
		m.Close()
	}
	return all
}

// MapEntries counts the keys of a map of the daemon, of which there must be one by that name: what grows has more.
func (b *Balancer) MapEntries(t testing.TB, name string) int {
	t.Helper()
	all := b.maps(t, name)
	defer func() {
		for _, m := range all {
			m.Close()
		}
	}()
	if len(all) != 1 {
		t.Fatalf("the daemon has %d maps %s, want one", len(all), name)
	}
	return countEntries(t, all[0])
}

// Left is what a daemon holds for its configuration and its traffic.
type Left struct {
	// Entries of its maps, by name, those of arrays excepted, of which there are always as many.
	Entries map[string]int
	// Slots are those in use, in no endpoint's stack of closed ones; Descriptors are open, those of maps excepted.
	Slots, Descriptors int
}

// Left takes stock. Of an Envoy there is none to take.
func (b *Balancer) Left(t testing.TB) Left {
	t.Helper()
	out := Left{Entries: map[string]int{}}
	if b.envoy {
		return out
	}
	out.Descriptors = b.Descriptors(t)
	for _, o := range kernelObjects(t, b.PID()) {
		if o.kind != "map_id" {
			continue
		}
		// Arrays that have grown stay so.
		out.Descriptors--
		m, err := ebpf.NewMapFromID(ebpf.MapID(o.id))
		if err != nil {
			continue // closed in between
		}
		switch m.Type() {
		case ebpf.Hash, ebpf.LRUHash, ebpf.LPMTrie, ebpf.SockHash, ebpf.HashOfMaps:
			info, err := m.Info()
			if err == nil {
				out.Entries[info.Name] = countEntries(t, m)
			}
		}
		m.Close()
	}
	if b.Mode.Fast {
		out.Slots = b.slotsInUse(t)
	}
	return out
}

func countEntries(t testing.TB, m *ebpf.Map) (n int) {
	t.Helper()
	key, err := m.NextKeyBytes(nil)
	for ; err == nil && key != nil; n++ {
		key, err = m.NextKeyBytes(key)
	}
	if err != nil {
		t.Fatalf("walk through a map: %v", err)
	}
	return n
}

// Slots reads all slots that the daemon has made room for.
func (b *Balancer) Slots(t testing.TB) (all []maps.Slot) {
	t.Helper()
	for _, page := range b.maps(t, "slots") {
		if page.Type() == ebpf.Array {
			all = append(all, readAll[maps.Slot](t, page)...)
		}
		page.Close()
	}
	return all
}

// Loads reads all counts of requests in flight, by account and cluster.
func (b *Balancer) Loads(t testing.TB) []maps.LoadSet {
	return readOnly[maps.LoadSet](t, b, "load_sets")
}

// Endpoints reads all endpoints, those that are not in use too.
func (b *Balancer) Endpoints(t testing.TB) []maps.Endpoint {
	return readOnly[maps.Endpoint](t, b, "endpoints")
}

// Pools reads all pools, those that are not in use too.
func (b *Balancer) Pools(t testing.TB) []maps.Pool {
	return readOnly[maps.Pool](t, b, "pools")
}

// readOnly reads the array of that name.
func readOnly[T any](t testing.TB, b *Balancer, name string) []T {
	t.Helper()
	all := b.maps(t, name)
	defer func() {
		for _, m := range all {
			m.Close()
		}
	}()
	if len(all) != 1 {
		t.Fatalf("the daemon has %d maps %s, want one", len(all), name)
	}
	return readAll[T](t, all[0])
}

func readAll[T any](t testing.TB, array *ebpf.Map) []T {
	t.Helper()
	entries := make([]T, array.MaxEntries())
	for i := range entries {
		if err := array.Lookup(uint32(i), &entries[i]); err != nil {
			t.Fatalf("read entry %d of an array: %v", i, err)
		}
	}
	return entries
}

func (b *Balancer) slotsInUse(t testing.TB) (n int) {
	t.Helper()
	for _, slot := range b.Slots(t) {
		if maps.SlotState(slot.State) != maps.SlotFree {
			n++
		}
	}
	return n
}

// AwaitLeft fails the test if more is held than before when a while has passed.
func (b *Balancer) AwaitLeft(t testing.TB, before Left) {
	t.Helper()
	const patience, spare = 60 * time.Second, 8
	deadline := time.Now().Add(patience)
	for {
		var more []string
		now := b.Left(t)
		for name, n := range now.Entries {
			if n > before.Entries[name] {
				more = append(more, fmt.Sprintf("%d entries of map %s, %d before", n, name, before.Entries[name]))
			}
		}
		if now.Slots > before.Slots {
			more = append(more, fmt.Sprintf("%d slots, %d before", now.Slots, before.Slots))
		}
		if now.Descriptors > before.Descriptors+spare {
			more = append(more, fmt.Sprintf("%d descriptors, %d before", now.Descriptors, before.Descriptors))
		}
		switch {
		case len(more) == 0:
			return
		case time.Now().After(deadline):
			violation.Errorf(t, "%v later there are still: %s", patience, strings.Join(more, "; "))
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// MapMemory is what the maps of the daemon take of the kernel's memory, in bytes, as the kernel tells.
func (b *Balancer) MapMemory(t testing.TB) (sum int64) {
	t.Helper()
	infos, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", b.PID()))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, info := range infos {
		content, err := os.ReadFile(info)
		if err != nil { // closed in between
			continue
		}
		fields := map[string]string{}
		for line := range strings.Lines(string(content)) {
			name, value, _ := strings.Cut(line, ":")
			fields[name] = strings.TrimSpace(value)
		}
		id, is := fields["map_id"]
		if !is || seen[id] {
			continue
		}
		seen[id] = true
		bytes, err := strconv.ParseInt(fields["memlock"], 10, 64)
		if err != nil {
			t.Fatalf("memory of map %s: %v", id, err)
		}
		sum += bytes
	}
	return sum
}

// Socket is a TCP socket of the daemon.
type Socket struct {
	Local, Remote netip.AddrPort
	// Listens tells that it has no peer.
	Listens bool
}

// Sockets lists the TCP sockets that the daemon holds.
func (b *Balancer) Sockets(t testing.TB) []Socket {
	t.Helper()
	held := b.socketInodes(t)
	var sockets []Socket
	for _, file := range []string{"tcp", "tcp6"} {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", b.PID(), file))
		if errors.Is(err, fs.ErrNotExist) {
			// A kernel without IPv6.
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			// proc_net_tcp: (1) local, (2) remote, (3) state, … (9) inode
			fields := strings.Fields(line)
			if len(fields) < 10 || !held[fields[9]] {
				continue
			}
			const listen = "0A"
			sockets = append(sockets, Socket{procAddress(t, fields[1]), procAddress(t, fields[2]), fields[3] == listen})
		}
	}
	return sockets
}

// socketInodes are those of the daemon's descriptors.
func (b *Balancer) socketInodes(t testing.TB) map[string]bool {
	t.Helper()
	descriptors, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", b.PID()))
	if err != nil {
		t.Fatal(err)
	}
	inodes := map[string]bool{}
	for _, d := range descriptors {
		// A descriptor may be closed in between.
		target, err := os.Readlink(d)
		if inode, ok := strings.CutPrefix(target, "socket:["); err == nil && ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return inodes
}

// procAddress reads an address of /proc/net/tcp: words of four bytes in this
// machine's order, and a port.
func procAddress(t testing.TB, text string) netip.AddrPort {
	t.Helper()
	host, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	number, portErr := strconv.ParseUint(port, 16, 16)
	if err := errors.Join(err, portErr); err != nil {
		t.Fatalf("address %s in /proc: %v", text, err)
	}
	for word := range slices.Chunk(raw, 4) {
		binary.BigEndian.PutUint32(word, binary.NativeEndian.Uint32(word))
	}
	address, ok := netip.AddrFromSlice(raw)
	if !ok {
		t.Fatalf("address %s in /proc: neither IPv4 nor IPv6", text)
	}
	return netip.AddrPortFrom(address.Unmap(), uint16(number))
}

// TCPMemory is the memory that TCP holds on this machine, in bytes.
func TCPMemory(t testing.TB) int64 {
	t.Helper()
	return tcpCount(t, "mem") * int64(os.Getpagesize())
}

// TCPSockets counts the TCP sockets of this machine, in all network namespaces.
func TCPSockets(t testing.TB) int {
	t.Helper()
	return int(tcpCount(t, "alloc"))
}

// tcpCount is a number of TCP's line in /proc/net/sockstat.
func tcpCount(t testing.TB, name string) int64 {
	t.Helper()
	content, err := os.ReadFile("/proc/net/sockstat")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		at := slices.Index(fields, name)
		if fields[0] != "TCP:" || at < 0 {
			continue
		}
		n, err := strconv.ParseInt(fields[at+1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Fatalf("/proc/net/sockstat has no %s of TCP", name)
	return 0
}

// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
)

// viewed is a service address to which this process's network namespace connects as one of a view, or of none.
type viewed struct {
	*door
	t      *testing.T
	d      *Datapath
	netns  uint64
	served maps.AnchorPorts
}

// newViewed has no listener yet. The namespace is one of view 0.
func newViewed(t *testing.T, service string, o Options) *viewed {
	t.Helper()
	v := &viewed{door: newDoor(t, service), t: t, netns: netnsCookie(t)}
	o.ReportNamespaces = true
	v.d = v.daemon(t, "daemon", o)
	must(t, v.d.Config.VIPs.Delete(v.exact(0)))
	var err error
	v.served, _, err = v.d.Sockets.Anchors.Lookup(v.netns)
	must(t, err)
	atomic.StoreUint32(&v.d.Shared.Control.Views, 1)
	setLife(v.d, 0, false)
	enterCgroupWith(t, []attachment{{v.d.programs.Sockops, ebpf.AttachCGroupSockOps, ""}, {v.d.programs.Connect4, ebpf.AttachCGroupInet4Connect, ""}})
	return v
}

// exact is the service address in a view.
func (v *viewed) exact(view uint32) maps.ListenerKey {
	key := maps.KeyOf(v.service)
	key.View = view
	return key
}

// many is the addresses around it.
func (v *viewed) many(view uint32) maps.ListenerKey {
	key := maps.KeyOfMany(netip.PrefixFrom(v.service.Addr(), 24), v.service.Port())
	key.View = view
	return key
}

// as has what connects from here on be of a view.
func (v *viewed) as(view uint32) {
	v.t.Helper()
	ports := v.served
	ports.View = view
	must(v.t, v.d.Sockets.Anchors.Put(v.netns, ports))
}

func (v *viewed) asUnknown()   { must(v.t, v.d.Sockets.Anchors.Delete(v.netns)) }
func (v *viewed) asLeftAlone() { must(v.t, v.d.Sockets.Anchors.Put(v.netns, maps.AnchorPorts{})) }

// outcome says who has got one connection, and what the kernel says of it.
type outcome struct {
	// taker is who has got it; "" if it was refused.
	taker string
	// verdict is "" where the daemon has nothing to do with it.
	verdict string
	// reported: the daemon hears of its network namespace.
	reported bool
}

func (v *viewed) connect(t *testing.T) (o outcome) {
	t.Helper()
	must(t, v.d.objects.Strangers.Put(v.netns, uint64(0)))
	atomic.StoreUint64(&v.d.Shared.Control.NamespaceNs, 0)
	before, err := v.d.Verdicts()
	must(t, err)
	o.taker = v.taker(t)
	after, err := v.d.Verdicts()
	must(t, err)
	for verdict := range after {
		if after[verdict] != before[verdict] {
			o.verdict += maps.VerdictName(maps.Verdict(verdict))
		}
	}
	var at uint64
	must(t, v.d.objects.Strangers.Lookup(v.netns, &at))
	o.reported = at != 0
	return o
}

// Outcomes of a connection to an address that a view's listener has.
var (
	mine    = outcome{"daemon", "connect_intercepted", false}
	others  = outcome{"stranger", "", false}
	unknown = outcome{"stranger", "connect_no_anchor", true}
	alone   = outcome{"stranger", "connect_left_alone", false}
	refused = outcome{"", "connect_stale_daemon", false}
)

// A network namespace connects to the listeners of its own view, and to no other's. One without a view is reported if any view has the address.
func TestConnectionsAreInterceptedForTheirOwnViewAlone(t *testing.T) {
	namespaces := map[string]func(*viewed){
		"of view 0": func(v *viewed) { v.as(0) }, "of view 7": func(v *viewed) { v.as(7) }, "of view 8": func(v *viewed) { v.as(8) },
		"unknown": (*viewed).asUnknown, "left alone": (*viewed).asLeftAlone,
	}
	table := []struct {
		name      string
		listeners []uint32
		down      bool
		want      map[string]outcome
	}{
		{"no listener", nil, false, map[string]outcome{"of view 0": others, "of view 7": others, "unknown": others, "left alone": others}},
		{"one of view 0", []uint32{0}, false, map[string]outcome{"of view 0": mine, "of view 7": others, "unknown": unknown, "left alone": alone}},
		{"one of view 7", []uint32{7}, false, map[string]outcome{
			"of view 0": others, "of view 7": mine, "of view 8": others, "unknown": unknown, "left alone": alone,
		}},
		{"of views 0 and 7", []uint32{0, 7}, false, map[string]outcome{
			"of view 0": mine, "of view 7": mine, "of view 8": others, "unknown": unknown, "left alone": alone,
		}},
		{"of view 7 while the daemon is silent", []uint32{7}, true, map[string]outcome{
			"of view 0": others, "of view 7": refused, "of view 8": others, "unknown": refused, "left alone": alone,
		}},
	}
	for name, keyOf := range map[string]func(*viewed, uint32) maps.ListenerKey{"address": (*viewed).exact, "addresses": (*viewed).many} {
		t.Run(name, func(t *testing.T) {
			v := newViewed(t, "127.80.77.51:8080", Options{RefuseWhenDown: true})
			for _, tt := range table {
				t.Run(tt.name, func(t *testing.T) {
					for _, view := range tt.listeners {
						must(t, v.d.Config.VIPs.Put(keyOf(v, view), 1+view))
					}
					if tt.down {
						setLife(v.d, time.Minute, false)
					}
					for namespace, want := range tt.want {
						namespaces[namespace](v)
						if got := v.connect(t); got != want {
							t.Errorf("a connection from a namespace %s: %+v, want %+v", namespace, got, want)
						}
					}
					setLife(v.d, 0, false)
					for _, view := range tt.listeners {
						must(t, v.d.Config.VIPs.Delete(keyOf(v, view)))
					}
				})
			}
		})
	}
}

// listenerOf is the number of the listener that a connection to an address comes to; 0 if it goes where it would without the daemon.
func (v *viewed) listenerOf(t *testing.T, address string) uint32 {
	t.Helper()
	c, err := net.DialTimeout("tcp4", address, 10*time.Second)
	if errors.Is(err, unix.ECONNREFUSED) {
		return 0
	}
	must(t, err)
	defer func() { must(t, c.Close()) }()
	local, remote := c.LocalAddr().(*net.TCPAddr).AddrPort(), c.RemoteAddr().(*net.TCPAddr).AddrPort()
	record, _ := v.d.Sockets.TakeConn(maps.ConnKey{Addr: local.Addr().As16(), Port: local.Port(), AnchorPort: remote.Port(), Netns: v.netns})
	return record.Listener
}

// The longest prefix wins among those of a view, whatever others have, and one with the port over one without.
func TestDestinationsAreThoseOfTheLongestPrefixOfTheirView(t *testing.T) {
	v := newViewed(t, "127.80.77.52:8080", Options{})
	for _, l := range []struct {
		view   uint32
		prefix string
		port   uint16
		number uint32
	}{
		{0, "127.80.0.0/15", 8081, 1},
		{3, "127.80.0.0/16", 8081, 31},
		{3, "127.80.77.0/24", 8081, 32},
		{3, "127.80.78.0/24", 8081, 0},
		{3, "127.80.77.53/32", 0, 33},
		{4, "127.80.0.0/17", 8081, 41},
		{4, "127.80.77.53/32", 8081, 42},
		{5, "127.81.0.0/16", 8081, 51},
	} {
		key := maps.KeyOfMany(netip.MustParsePrefix(l.prefix), l.port)
		key.View = l.view
		must(t, v.d.Config.VIPs.Put(key, l.number))
	}
	for address, want := range map[string]map[uint32]uint32{
		"127.80.77.53:8081": {0: 1, 3: 32, 4: 42, 5: 0, 6: 0},
		"127.80.77.53:8082": {0: 0, 3: 33, 4: 0, 5: 0, 6: 0},
		"127.80.77.54:8081": {0: 1, 3: 32, 4: 41, 5: 0, 6: 0},
		"127.80.78.1:8081":  {0: 1, 3: 0, 4: 41, 5: 0, 6: 0},
		"127.80.200.1:8081": {0: 1, 3: 31, 4: 0, 5: 0, 6: 0},
		"127.81.0.1:8081":   {0: 1, 3: 0, 4: 0, 5: 51, 6: 0},
	} {
		for view, number := range want {
			v.as(view)
			if got := v.listenerOf(t, address); got != number {
				t.Errorf("%s in view %d comes to listener %d, want %d", address, view, got, number)
			}
		}
	}
}

// A network namespace without a view is reported for an address as long as any view intercepts connections to it.
func TestNamespaceIsReportedWhileAnyViewHasTheAddress(t *testing.T) {
	for name, keyOf := range map[string]func(*viewed, uint32) maps.ListenerKey{"address": (*viewed).exact, "addresses": (*viewed).many} {
		t.Run(name, func(t *testing.T) {
			v := newViewed(t, "127.80.77.55:8080", Options{})
			v.asUnknown()
			put := func(view, number uint32) error { return v.d.Config.VIPs.Put(keyOf(v, view), number) }
			remove := func(view uint32) error { return v.d.Config.VIPs.Delete(keyOf(v, view)) }
			for _, step := range []struct {
				name   string
				change func() error
				want   outcome
				listed int
			}{
				{"one has it", func() error { return put(7, 1) }, unknown, 1},
				{"another has it", func() error { return put(8, 2) }, unknown, 2},
				{"the first has another listener there", func() error { return put(7, 3) }, unknown, 2},
				{"the first has it no more", func() error { return remove(7) }, unknown, 1},
				{"it is removed once more", func() error { return remove(7) }, unknown, 1},
				{"the other leaves connections to it alone", func() error { return put(8, 0) }, others, 1},
				{"it intercepts them again", func() error { return put(8, 2) }, unknown, 1},
				{"it has it no more", func() error { return remove(8) }, others, 0},
			} {
				must(t, step.change())
				if got := v.connect(t); got != step.want {
					t.Errorf("%s: %+v, want %+v", step.name, got, step.want)
				}
				listed := 0
				must(t, v.d.Config.VIPs.Each(func(maps.ListenerKey, uint32) bool { listed++; return true }))
				if listed != step.listed {
					t.Errorf("%s: %d entries are listed, want %d", step.name, listed, step.listed)
				}
			}
		})
	}
}

// A network namespace that is not found is not served at that moment. So many share the map that several are in each of its buckets, where one that is
// exchanged by another could be missed.
func TestNamespaceIsFoundWhileItsViewChanges(t *testing.T) {
	const namespaces, changes = 4000, 100_000
	d, err := Load(Options{})
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	portsOf := func(netns uint64, view uint32) maps.AnchorPorts {
		return maps.AnchorPorts{Port4: [8]uint16{7: uint16(netns)}, Workload: uint32(netns), Account: 5, View: view}
	}
	views := [2]uint32{1, 254}
	for netns := range uint64(namespaces) {
		must(t, d.Sockets.Anchors.Put(netns, portsOf(netns, views[0])))
	}
	var changing atomic.Uint64
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < changes && err == nil; i++ {
			netns := uint64(i % namespaces)
			changing.Store(netns)
			err = d.Sockets.Anchors.Put(netns, portsOf(netns, views[(i/namespaces+1)%2]))
		}
		done <- err
	}()
	looks, missed, mixed := 0, 0, 0
	for isChanging := true; isChanging; looks++ {
		select {
		case err := <-done:
			must(t, err)
			isChanging = false
		default:
		}
		netns := changing.Load()
		ports, found, err := d.Sockets.Anchors.Lookup(netns)
		must(t, err)
		if !found {
			missed++
		} else if ports != portsOf(netns, views[0]) && ports != portsOf(netns, views[1]) {
			mixed++
		}
	}
	if missed > 0 || mixed > 0 {
		t.Errorf("%d of %d look-ups have missed a namespace, %d have seen what it never had", missed, looks, mixed)
	}
}

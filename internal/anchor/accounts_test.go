// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/quota"
	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/mapstest"
	"github.com/xlb-project/xlb/test/workloadtest"
)

// accountsOf are the accounts that the kernel programs find.
func (r *rig) accountsOf() (numbers []uint32) {
	r.t.Helper()
	must(r.t, r.accounts.Each(func(number uint32, _ maps.Account) bool {
		numbers = append(numbers, number)
		return true
	}))
	return numbers
}

// Connections are bounded while a workload other than the host is served, and counted in the account that its clients' connections name.
func TestConnectionsAreBoundedWhileOthersThanTheHostAreServed(t *testing.T) {
	t.Parallel()
	r := prepare(t, setup{})
	r.cfg.MostConnections = 100
	r.open()
	bound := func(when string, want uint32) {
		t.Helper()
		if got := atomic.LoadUint32(&r.shared.Control.MaxConnections); got != want {
			t.Errorf("%s: the kernel programs allow %d connections, want %d", when, got, want)
		}
	}
	bound("the host alone", 0)
	w := r.joined(7)
	bound("another one has joined", 100)
	r.within(w, func() {
		if got := r.ports().Account; got != 7 {
			t.Errorf("connections count in account %d, want 7", got)
		}
	})
	must(t, r.s.Withdraw(w))
	r.within(w, func() {
		if ports := r.ports(); ports.Workload != 7 || ports.Port4[0] != 0 {
			t.Errorf("withdrawn: %+v, want workload 7 without ports", ports)
		}
	})
	bound("it is withdrawn, and has clients still", 100)
	must(t, r.s.Announce(w))
	r.within(w, func() {
		if got := r.ports().Account; got != 7 {
			t.Errorf("announced again, connections count in account %d, want 7", got)
		}
	})
	if got := len(r.accountsOf()); got != 2 {
		t.Errorf("%d accounts, want those of the host and of the workload", got)
	}
	r.mustLeave(w)
	bound("it has left", 0)
	if got := r.accountsOf(); !reflect.DeepEqual(got, []uint32{0}) {
		t.Errorf("accounts: %d, want that of the host alone", got)
	}
}

// What one maker's network namespaces have counts together, until the last one has left; what was refused counts on.
func TestNetworkNamespacesOfOneMakerShareAnAccount(t *testing.T) {
	t.Parallel()
	r := prepare(t, setup{})
	r.cfg.MostConnections = 100
	r.open()
	first, second := workloadtest.New(t, 7), workloadtest.New(t, 8)
	second.CountIn(7)
	must(t, r.s.Join(first))
	must(t, r.accounts.Put(7, maps.Account{Connections: 3, Refused: 5}))
	atomic.StoreUint32(&r.shared.Control.Connections, 3)
	must(t, r.s.Join(second))
	r.within(second, func() {
		if got := r.ports().Account; got != 7 {
			t.Errorf("connections of the second count in account %d, want 7", got)
		}
	})
	usage := func(want quota.Usage[workload.ID]) {
		t.Helper()
		if got := r.s.ConnectionUsage(); !reflect.DeepEqual(got, want) {
			t.Errorf("usage: %+v, want %+v", got, want)
		}
	}
	its := quota.Use{Taken: 3, Refused: 5}
	usage(quota.Usage[workload.ID]{Size: 100, Taken: 3, Refused: 5, By: map[workload.ID]quota.Use{0: {}, 7: its}})
	r.mustLeave(first)
	usage(quota.Usage[workload.ID]{Size: 100, Taken: 3, Refused: 5, By: map[workload.ID]quota.Use{0: {}, 7: its}})
	r.mustLeave(second)
	usage(quota.Usage[workload.ID]{Size: 100, Taken: 3, Refused: 5, By: map[workload.ID]quota.Use{0: {}}})
}

// Sockets may be open behind the namespace of their clients: an account that was made anew would have less than none when they close.
func TestAnAccountStaysWhileConnectionsCountInIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	mustHave := func(when string, want ...uint32) {
		t.Helper()
		got := r.accountsOf()
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: accounts %d, want %d", when, got, want)
		}
		if has := r.s.HasAccount(7); has != slices.Contains(want, 7) {
			t.Errorf("%s: account 7 is in use: %t", when, has)
		}
	}
	w := r.joined(7)
	must(t, r.accounts.Put(7, maps.Account{Connections: 3, Refused: 5}))
	r.mustLeave(w)
	mustHave("its workload has left", 0, 7)
	next := workloadtest.New(t, 8)
	next.CountIn(7)
	must(t, r.s.Join(next))
	if is, _, _ := r.accounts.Lookup(7); is != (maps.Account{Connections: 3, Refused: 5}) {
		t.Errorf("account of the next workload: %+v, want what the first one has left", is)
	}
	r.mustLeave(next)
	must(t, r.accounts.Put(7, maps.Account{Refused: 6}))
	if r.s.HasAccount(7) {
		t.Error("the account is in use, and has no connection")
	}
	r.mustLeave(r.joined(9))
	mustHave("the sockets have closed", 0)
	if got := r.s.ConnectionUsage().Refused; got != 6 {
		t.Errorf("refused in all: %d, want 6", got)
	}
}

func TestAWorkloadThatCannotJoinHasNoAccount(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		fail func(r *rig)
	}{
		{"no room for the account", func(r *rig) {
			r.cfg.Sockets.Accounts = mapstest.NewFakeTable[uint32, maps.Account](func() bool { return true })
		}},
		{"no room for the announcement", func(r *rig) {
			r.cfg.Sockets.Anchors = mapstest.NewFakeTable[uint64, maps.AnchorPorts](func() bool { return true })
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := prepare(t, setup{})
			r.cfg.MostConnections = 100
			r.open()
			tt.fail(r)
			if err := r.s.Join(workloadtest.New(t, 7)); !errors.Is(err, mapstest.ErrFault) {
				t.Fatalf("join: %v, want %v", err, mapstest.ErrFault)
			}
			r.cfg.Sockets.Anchors, r.cfg.Sockets.Accounts = r.anchors, r.accounts
			if got := r.accountsOf(); !reflect.DeepEqual(got, []uint32{0}) {
				t.Errorf("accounts: %d, want that of the host alone", got)
			}
			if got := atomic.LoadUint32(&r.shared.Control.MaxConnections); got != 0 {
				t.Errorf("the kernel programs allow %d connections, want any number", got)
			}
		})
	}
}

// The root of a network namespace may raise net.core.somaxconn there, and what waits takes room of others.
func TestNoWorkloadHasAQueueOfAnyLength(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	w := workloadtest.New(t, 1)
	must(t, w.Within(func() error { return os.WriteFile("/proc/sys/net/core/somaxconn", []byte("65535"), 0) }))
	must(t, r.s.Join(w))
	its, _ := r.s.listenersOf(w)
	for _, l := range its {
		if l.limit != backlogOfWorkload {
			t.Errorf("%d connections may wait at a listener, want %d", l.limit, backlogOfWorkload)
		}
	}
	if len(its) == 0 {
		t.Error("the workload has no listeners")
	}
}

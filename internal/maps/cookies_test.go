// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
)

// newSlowConns returns a trie for so many connections.
func newSlowConns(t *testing.T, entries uint32) *ebpf.Map {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Type: ebpf.LPMTrie, KeySize: uint32(unsafe.Sizeof(CookieKey{})), ValueSize: uint32(unsafe.Sizeof(SlowConn{})), MaxEntries: entries, Flags: 1, // BPF_F_NO_PREALLOC
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func TestCookiesCountWhole(t *testing.T) {
	table := newCookieTable[uint32]("cookies", func() *ebpf.Map {
		m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.LPMTrie, KeySize: uint32(unsafe.Sizeof(CookieKey{})), ValueSize: 4, MaxEntries: 16, Flags: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		return m
	}())
	cookies := []uint64{0, 1, 2, 1 << 32, 1<<32 | 1, 1 << 63, ^uint64(0)}
	for i, cookie := range cookies {
		if err := table.Put(cookie, uint32(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.Delete(1); err != nil {
		t.Fatal(err)
	}
	for i, cookie := range cookies {
		v, found, err := table.Lookup(cookie)
		if want := cookie != 1; found != want || found && v != uint32(i) || err != nil {
			t.Errorf("cookie %x: %d, %t, %v; want %d, %t", cookie, v, found, err, i, want)
		}
	}
	for _, cookie := range []uint64{3, 256, 1 << 62} {
		if _, found, err := table.Lookup(cookie); found || err != nil {
			t.Errorf("cookie %x: %t, %v; want none", cookie, found, err)
		}
	}
	all := map[uint64]uint32{}
	if err := table.Each(func(cookie uint64, v uint32) bool { all[cookie] = v; return true }); err != nil || len(all) != len(cookies)-1 || all[1<<63] != 5 {
		t.Errorf("all: %v, %v", all, err)
	}
}

// What the kernel knows of a connection is not overwritten by a mark, and what it has forgotten does not come again by an offer.
func TestMarksAndOffersChangeOnlyWhatTheyShould(t *testing.T) {
	s := NewSockets(nil, nil, nil, nil, newSlowConns(t, 2), nil, nil, nil, nil, nil)
	declined := SlowConn{Reason: uint32(HandoverUpgrade), Slot: 3, HasLease: 1, Lease: 9}
	if err := s.SlowConns.Put(5, declined); err != nil {
		t.Fatal(err)
	}
	if err := s.MarkSlow(5, VerdictSpilled, Lease{Slot: 1, Number: 7}); err != nil {
		t.Fatal(err)
	}
	if got, _, err := s.SlowConns.Lookup(5); got != declined || err != nil {
		t.Errorf("after a mark: %+v, %v; want %+v", got, err, declined)
	}
	if err := s.Offer(6, 1, 2, 3, OfferAnswered, true); err != nil {
		t.Error(err)
	}
	if _, found, err := s.SlowConns.Lookup(6); found || err != nil {
		t.Errorf("an offer has made an entry: %t, %v", found, err)
	}
	if err := s.slowConns.Update(CookieKeyOf(6), SlowConn{}, ebpf.UpdateExist); !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Errorf("an entry that is not there is exchanged: %v", err)
	}
	if err := s.MarkSlow(6, VerdictSpilled, Lease{Slot: 1, Number: 7}); err != nil {
		t.Error(err)
	}
	marked := SlowConn{Reason: uint32(VerdictSpilled), Slot: 1, HasLease: 1, Lease: 7}
	if got, _, err := s.SlowConns.Lookup(6); got != marked || err != nil {
		t.Errorf("a new mark: %+v, %v; want %+v", got, err, marked)
	}
	if err := s.MarkSlow(7, VerdictSpilled, Lease{}); err == nil {
		t.Error("there is room for more than the limit")
	}
}

// SPDX-License-Identifier: Apache-2.0

package maps_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/mapstest"
)

// Who ends a lease may be late: its slot may have been leased anew, even since that was looked at.
func TestWhoEndsALeaseLeavesTheNextOneAlone(t *testing.T) {
	const rounds = 200_000
	s := maps.NewHeapShared(maps.Sizes{Clusters: 1, Endpoints: 1, Slots: 1})
	var given atomic.Pointer[maps.Lease]
	var over atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !over.Load() {
			if l := given.Load(); l != nil {
				s.BreakLease(*l)
			}
		}
	})
	defer wg.Wait()
	defer over.Store(true)
	broken := 0
	// On a busy machine whoever breaks leases may have had no processor by then.
	for began, round := time.Now(), 0; round < rounds || broken == 0 && time.Since(began) < await.Patience; round++ {
		s.Prepare(0, maps.Owner{})
		s.CompareAndSwapState(0, maps.SlotConnecting, maps.SlotReady)
		first := begin(t, s)
		given.Store(&first)
		if s.ResponseDone(s.Current(0)) == maps.SlotBroken {
			broken++
			continue
		}
		s.Pop(0)
		second := begin(t, s)
		if s.ResponseDone(s.Current(0)) == maps.SlotBroken {
			t.Fatalf("lease %d is broken by who was to end lease %d", second.Number, first.Number)
		}
		s.Pop(0)
	}
	over.Store(true)
	wg.Wait()
	if broken == 0 {
		t.Error("no lease was broken: the test says nothing")
	}
	requireNoLease(t, s)
}

func begin(t *testing.T, s *maps.Shared) maps.Lease {
	l, ok := mapstest.Take(s, 0)
	if !ok {
		t.Fatal("an idle slot is broken by who was to end a lease")
	}
	mapstest.Begin(s, l, maps.PendingResponse)
	return l
}

// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"sync"
	"testing"
)

// Requests come and go while the index of their cluster becomes another one's: whatever moment that is, nothing is left of them in the count of the next.
// One that stayed would take a place behind its circuit breakers for ever; one taken from nothing would leave no place at all.
func TestCountsAreExactWhileAnIndexChangesHands(t *testing.T) {
	const rounds, clients, requests = 30_000, 2, 40
	s := NewHeapShared(Sizes{Clusters: 1})
	s.NewCluster(0)
	for i := range rounds {
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				for range requests {
					if number := s.ClusterNumber(0); s.EnterCluster(0, number, 1000) {
						s.LeaveCluster(0, number)
					}
				}
			})
		}
		all.Go(func() {
			for range requests {
				s.NewCluster(0)
			}
		})
		all.Wait()
		if got := s.Clusters[0].Active; got != 0 {
			t.Fatalf("round %d: %d in flight of requests that have ended, want none", i, int32(got))
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"fmt"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
)

// BenchmarkPick shows what a choice costs the slow path.
func BenchmarkPick(b *testing.B) {
	for _, policy := range policies {
		for _, n := range []uint32{10, 10_000} {
			b.Run(fmt.Sprintf("%d/%d", policy, n), func(b *testing.B) {
				shared := maps.NewHeapShared(maps.Sizes{Clusters: 2, Groups: 8, Endpoints: n, Schedules: n})
				turns := make([]uint32, n)
				for i := range turns {
					turns[i] = uint32(i)
					shared.Endpoints[i].Weight = 1
				}
				shared.Clusters[0].Root = 1
				shared.Groups[1].Policy = uint32(policy)
				shared.Groups[1].Schedule = write(shared, 0, turns...)
				p := New(shared)
				for b.Loop() {
					if e, ok := p.Pick(0, 0, nil); ok {
						p.Done(e)
					}
				}
			})
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package slowpath

import "sync"

// tally counts what is under way by cluster, up to a limit.
type tally struct {
	limit int

	mu    sync.Mutex
	count map[string]int // guarded by mu; only what is not 0
}

func newTally(limit int) *tally { return &tally{limit: limit, count: map[string]int{}} }

// begin counts one more, unless there are as many as there may be.
func (t *tally) begin(cluster string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count[cluster] >= t.limit {
		return false
	}
	t.count[cluster]++
	return true
}

// end takes back what begin has counted.
func (t *tally) end(cluster string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count[cluster]--; t.count[cluster] == 0 {
		delete(t.count, cluster)
	}
}

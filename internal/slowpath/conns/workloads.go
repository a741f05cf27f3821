// SPDX-License-Identifier: Apache-2.0

package conns

import "github.com/xlb-project/xlb/internal/workload"

// workloads is a set of them. Each number is given once, the next one after the last, so that the set grows by one bit for each pod.
type workloads struct{ bits []uint64 }

func (w *workloads) add(id workload.ID) {
	for uint64(id) >= 64*uint64(len(w.bits)) {
		w.bits = append(w.bits, 0)
	}
	w.bits[id/64] |= 1 << (id % 64)
}

func (w *workloads) has(id workload.ID) bool {
	return uint64(id) < 64*uint64(len(w.bits)) && w.bits[id/64]&(1<<(id%64)) != 0
}

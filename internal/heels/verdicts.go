// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"fmt"

	"github.com/xlb-project/xlb/internal/heels/kernel"
)

// Verdicts returns how often each verdict was given since the pins were made, over all CPUs, by name.
func (k *Kernel) Verdicts() (map[string]uint64, error) {
	counts := make(map[string]uint64, kernel.VerdictCount)
	for v := 1; v < kernel.VerdictCount; v++ {
		n, err := k.verdict(kernel.Verdict(v))
		if err != nil {
			return nil, err
		}
		counts[kernel.VerdictNames[v]] = n
	}
	return counts, nil
}

// verdict returns how often one was given.
func (k *Kernel) verdict(v kernel.Verdict) (n uint64, err error) {
	var perCPU []uint64
	if err := k.maps.HeelsVerdicts.Lookup(uint32(v), &perCPU); err != nil {
		return 0, fmt.Errorf("read verdict counters: %w", err)
	}
	for _, each := range perCPU {
		n += each
	}
	return n, nil
}

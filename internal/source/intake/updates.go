// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"github.com/xlb-project/xlb/internal/hashing"
	"github.com/xlb-project/xlb/internal/metrics"
)

// Updates are Envoy's statistics of an origin.
func (t *Taken) Updates() metrics.Updates {
	u := metrics.Updates{Successes: t.Successes, Rejected: t.Rejected, Failures: t.Failures}
	if !t.At.IsZero() {
		u.Time, u.Version = uint64(t.At.UnixMilli()), hashing.Sum(t.Version)
	}
	return u
}

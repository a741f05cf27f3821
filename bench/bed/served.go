// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"strconv"
	"strings"

	"github.com/xlb-project/xlb/bench/peers"
)

// served counts XLB's requests by path; nil when nobody counted.
type served map[string]float64

// servedBy reads the counters of XLB. A figure beside the measurement: without
// it the measurement stands.
func (b *Bed) servedBy(ctx context.Context, p peers.Peer) served {
	if p.Name != peers.XLB {
		return nil
	}
	text, err := b.get(ctx, "http://"+peers.AdminAddress.String()+"/metrics")
	if err != nil {
		return nil
	}
	return parseServed(text)
}

// parseServed adds up xlb_requests_total by its label "path" in Prometheus's
// text format.
func parseServed(text string) served {
	counts := served{}
	for line := range strings.Lines(text) {
		labels, ok := strings.CutPrefix(line, "xlb_requests_total{")
		if !ok {
			continue
		}
		labels, value, ok := strings.Cut(labels, "} ")
		n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if !ok || err != nil {
			continue
		}
		for _, path := range []string{"fast", "slow"} {
			if strings.Contains(labels, `path="`+path+`"`) {
				counts[path] += n
			}
		}
	}
	return counts
}

// shareSince returns the fast share of the requests after before, or nil when
// there were none.
func (s served) shareSince(before served) *float64 {
	fast := s["fast"] - before["fast"]
	total := fast + s["slow"] - before["slow"]
	if total <= 0 {
		return nil
	}
	share := fast / total
	return &share
}

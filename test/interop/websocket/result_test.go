// SPDX-License-Identifier: Apache-2.0

package websocket

import (
	"fmt"
	"io"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
)

// leastFastShare is the share of connections that must be upgraded on the fast
// path, as a fraction of 1. Each keeps an i-sock for as long as it lives: of a
// thousand that come at once, those that overtake the growing pool are upgraded
// in user space. Measured: 0.86 to 0.97.
const leastFastShare = 0.75

// result is the line of a pair in the table.
type result struct {
	clients, servers, topology, mode string

	connections, compressed, messages, pings, errors int
	bytes                                            int64
	// fast and slow are connections by the path that upgraded them.
	fast, slow float64
	passed     bool
}

type table struct{ rows []*result }

// results of all pairs, in the order of their tests, which do not overlap.
var results table

func (t *table) add(clients, servers, topology, mode string) *result {
	r := &result{clients: clients, servers: servers, topology: topology, mode: mode}
	t.rows = append(t.rows, r)
	return r
}

func (r *result) fastShare() float64 {
	if r.fast+r.slow == 0 {
		return 0
	}
	return r.fast / (r.fast + r.slow)
}

func (t *table) print(w io.Writer) {
	if len(t.rows) == 0 {
		return
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "client\tserver\ttopology\tmode\tconnections\tcompressed\tmessages\tMiB\tpings\terrors\tfast\tverdict")
	for _, r := range t.rows {
		verdict := "FAILED"
		if r.passed {
			verdict = "ok"
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.3f\t%s\n", r.clients, r.servers, r.topology, r.mode,
			r.connections, r.compressed, r.messages, r.bytes>>20, r.pings, r.errors, r.fastShare(), verdict)
	}
	// Standard output is all there is to tell it to.
	_ = out.Flush()
}

// judge completes the pair's result once all its connections have ended.
func (p *pair) judge(t *testing.T, mode harness.Mode) {
	t.Helper()
	p.requireAllEnded(t)
	if !harness.Envoy() {
		p.result.fast, p.result.slow = p.balancer.Served(t)
		// A connection that has switched is never idle again: its end must end the lease.
		harness.Eventually(t, 10*time.Second, "no lease is active", func() bool {
			return p.balancer.Metric(t, "xlb_leases_active") == 0
		})
	}
	if share := p.result.fastShare(); mode.Fast && share < leastFastShare {
		t.Errorf("connections upgraded on the fast path: got %.3f of all, want at least %.3f", share, leastFastShare)
	}
	p.result.passed = !t.Failed()
}

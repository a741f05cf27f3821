// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"testing"

	"github.com/xlb-project/xlb/test/heels/stand"
	"github.com/xlb-project/xlb/test/heels/traffic"
)

// A SYN-ACK that is lost brings a second SYN and a second SYN-ACK, a FIN that is lost comes from whatever socket is left then.
func TestSegmentsThatAreSentAgainFindTheirConnection(t *testing.T) {
	for _, lost := range []stand.Lost{stand.FirstSYNACK, stand.FirstFIN} {
		for _, order := range []traffic.Order{traffic.ClientFirst, traffic.ServerFirst} {
			each(t, threeWays(), func(t *testing.T, b *bed, w way) {
				b.balance(w)
				b.serve(w.serverPort())
				b.agents(w)
				must(t, b.Lose(lost))
				o := few(w.target(), 30)
				o.Concurrency, o.Close = 30, order
				again := b.retransmits()
				b.onlyHandshakes(o.Connections, func() {
					complete(t, o, b.ask(o))
					b.allEnd(0)
				})
				if n := b.retransmits() - again; n < int64(o.Connections) {
					t.Errorf("%d segments were sent again for %d connections: the test shows nothing", n, o.Connections)
				}
				b.unhurt()
			})
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/heels/stand"
	"github.com/xlb-project/xlb/test/heels/traffic"
	"github.com/xlb-project/xlb/test/suite"
)

// A SYN-ACK that is lost brings a second SYN and a second SYN-ACK, a FIN that is lost comes from whatever socket is left then.
func TestSegmentsThatAreSentAgainFindTheirConnection(t *testing.T) {
	suite.Long(t, suite.Slow)
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

// A SYN that was sent again may come when its connection is long there. It is part of that connection: if the server took it for another one, that would be
// half open until the client ended it by a reset.
func TestASYNThatComesLateBeginsNothing(t *testing.T) {
	suite.Long(t, suite.Slow)
	each(t, threeWays(), func(t *testing.T, b *bed, w way) {
		agents := b.stage(w)
		wire := b.listen(b.Client)
		const n = 12
		l := b.start(stream(w.target(), n, endless))
		syns := wire.syns(n)
		b.underWay(n)
		for _, syn := range syns {
			b.post(b.Client, syn)
		}
		harness.Eventually(t, patience, "the second SYNs are decided about", func() bool {
			return verdict(t, agents, "committed")+verdict(t, agents, "decline_collision") >= 2*n
		})
		if taken := verdict(t, agents, "committed"); taken != 2*n {
			t.Errorf("%d SYNs were taken, want all %d", taken, 2*n)
		}
		if half := b.open()["SYN-RECV"]; half != 0 {
			t.Errorf("%d handshakes began, want none", half)
		}
		if r := l.finish(); r.Errors != 0 || r.Connections != n {
			t.Errorf("%d of %d connections ended well, errors %v", r.Connections, n, r.Kinds)
		}
		b.allEnd(0)
		b.unhurt()
	})
}

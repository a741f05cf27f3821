// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"os"
	"testing"

	"github.com/xlb-project/xlb/test/heels/balancer"
	"github.com/xlb-project/xlb/test/violation"
)

// The tests' own balancer stands for Katran; this is Katran itself, compiled from a checkout. None of it is in this tree: it has another licence.
func TestKatranSeesHandshakesOnly(t *testing.T) {
	source := os.Getenv(balancer.KatranSource)
	if source == "" {
		t.Skipf("%s names no checkout of https://github.com/facebookincubator/katran", balancer.KatranSource)
	}
	w := encapsulating
	b := newBed(t)
	katran, err := b.EncapsulateByKatran(source, w.service(b.Servers...))
	must(t, err)
	t.Cleanup(func() { must(t, katran.Close()) })
	b.serve(w.serverPort())

	one, many, large := few(w.target(), 1), few(w.target(), 60), bulk(w.target())
	without := b.seen(b.LB, func() {
		complete(t, one, b.ask(one))
		r := b.ask(many)
		complete(t, many, r)
		b.shared(r, b.Servers...)
	})
	if least := uint64(61 * 6); without.In < least || without.Out != without.In {
		t.Fatalf("without HEELS, Katran saw %+v: want at least %d packets, and as many out", without, least)
	}

	b.agents(w)
	b.onlyHandshakes(1, func() { complete(t, one, b.ask(one)) })
	b.onlyHandshakes(many.Connections, func() {
		r := b.ask(many)
		complete(t, many, r)
		b.shared(r, b.Servers...)
		if r.Masked != 0 {
			violation.Errorf(t, "%d of %d connections showed another client to the server", r.Masked, many.Connections)
		}
	})
	b.onlyHandshakes(large.Connections, func() { complete(t, large, b.ask(large)) })
}

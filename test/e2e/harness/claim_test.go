// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"net/netip"
	"testing"
)

func TestClaimsDiffer(t *testing.T) {
	const blocks = 3
	own, before := byte(servicesFrom()/serviceBlock), len(claims.held)
	t.Cleanup(func() {
		for _, l := range claims.held[before:] {
			l.Close()
		}
		claims.held = claims.held[:before]
	})
	standsFor := func(block uint32) netip.Addr { return netip.AddrFrom4([4]byte{127, 78, own, byte(block)}) }
	had := map[uint32]bool{}
	for range blocks {
		block, err := claim(blocks, standsFor)
		if err != nil || block >= blocks || had[block] {
			t.Errorf("claimed block %d (%v) beside %v", block, err, had)
		}
		had[block] = true
	}
	if block, err := claim(blocks, standsFor); err == nil {
		t.Errorf("claimed block %d when all were taken", block)
	}
}

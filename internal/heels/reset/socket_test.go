// SPDX-License-Identifier: Apache-2.0

package reset

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/internal/heels/heelstest"
)

// An end that is told is a whole packet.
func TestResetsOfTheAgent(t *testing.T) {
	p := resetOf(netip.MustParseAddrPort("10.77.2.1:8080"), netip.MustParseAddrPort("10.77.1.1:1234"), 0x01020304)
	again := bytes.Clone(p)
	heelstest.FinishChecksum(again)
	if !bytes.Equal(p, again) || p[33] != 4 || binary.BigEndian.Uint32(p[24:]) != 0x01020304 {
		t.Errorf("the packet is %x, want %x", p, again)
	}
}

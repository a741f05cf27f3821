// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/heels/heelstest"
	"github.com/xlb-project/xlb/internal/heels/kernel"
)

// A reset sends a connection in confirm mode back to the balancer only with a number of the last window: all that was ever received is half of the numbers after
// 2 GiB, and more than a guess needs long before.
func TestConfirmAResetOfLongAgoMovesNothing(t *testing.T) {
	const received, back = 64 << 20, 48 << 20
	r := newRig(t, testServer1)
	r.nat("80", testServer1+":80", true)
	server := r.servers[0].agent(confirmText("80"))
	r.servers[0].listen(":80", func(c net.Conn) {
		_, _ = io.CopyN(c, zeros{}, received)
		answerWhom(c)
	})
	client := r.client.agent(clientText)
	// A window far below, and a retransmission timer that does not run out in the meantime.
	r.client.Sysctl("ipv4/tcp_rmem", "4096 131072 1048576")
	r.client.Run("", "ip", "route", "add", testVIP+"/32", "dev", "eth0", "rto_min", "10s")
	c, err := r.client.dial(testVIP + ":80")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.CopyN(io.Discard, c, received); err != nil {
		t.Fatal(err)
	}
	r.client.Run("table ip d {\n chain i { type filter hook prerouting priority -300; ip saddr "+testVIP+" drop; }\n}\n", "nft", "-f", "-")
	if _, err := c.Write([]byte("?\n")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the payload has gone directly", func() bool { return client.count(t, "confirm_switched") == 1 })
	eventually(t, "the client is heard", func() bool { return server.count(t, "confirm_heard") == 1 })
	var live kernel.Confirmed
	ends := kernel.Tuple{Local: kernel.EndOf(netip.MustParseAddrPort(testServer1 + ":80")), Remote: kernel.EndOf(netip.MustParseAddrPort(c.LocalAddr().String()))}
	if err := server.maps.HeelsConfirmed.Lookup(ends, &live); err != nil {
		t.Fatal(err)
	}
	made := fixture{from: testServer1 + ":80", to: c.LocalAddr().String(), flags: 0x04}
	packet := made.packet()[14:]
	binary.BigEndian.PutUint32(packet[24:], live.Mark-back)
	heelstest.FinishChecksum(packet)
	r.servers[0].post(packet)
	eventually(t, "the reset has come", func() bool { return client.count(t, "client_reset")+client.count(t, "confirm_returned") > 0 })
	if n := client.count(t, "confirm_returned"); n != 0 {
		t.Error("a reset with a number of long ago has sent the connection back to the balancer")
	}
	r.client.Run("", "nft", "delete", "table", "ip", "d")
	if seen, err := bufio.NewReader(c).ReadString('\n'); err != nil || strings.TrimSpace(seen) != c.LocalAddr().String() {
		t.Errorf("server sees %q, want %s (%v)", seen, c.LocalAddr(), err)
	}
}

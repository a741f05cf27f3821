// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// isnGenerator draws the initial sequence numbers of i-socks. The kernel could draw them as well, but does
// not report them before the handshake; and by its number, which only the host gets to know that is
// really connected to, the far end of an i-sock is recognised. Its addresses are no proof: a process that may
// make a network namespace has any address there.
type isnGenerator struct{ key [sha256.Size]byte }

func newISNGenerator() *isnGenerator {
	var g isnGenerator
	// It never fails.
	_, _ = rand.Read(g.key[:])
	return &g
}

const (
	// tick is what sequence numbers count of the time, as the kernel's do: 64 ns.
	tick = 6
	// drawn bits of a number are random. They are worth a second of the clock.
	drawn = 24
)

// syn is the number of a connection's SYN, never 0. As RFC 6528 asks, the numbers of one pair of
// addresses grow with the clock, so that an old connection of that pair is told from a new one, and
// tell nothing of those of another pair; and not even a host that has seen an earlier number of this pair
// guesses the next.
func (g *isnGenerator) syn(local, remote netip.AddrPort) uint32 {
	h := hmac.New(sha256.New, g.key[:])
	for _, a := range []netip.AddrPort{local, remote} {
		at := a.Addr().As16()
		h.Write(binary.BigEndian.AppendUint16(at[:], a.Port()))
	}
	own := binary.BigEndian.Uint32(h.Sum(nil))
	var b [4]byte
	_, _ = rand.Read(b[:])
	random := binary.BigEndian.Uint32(b[:]) >> (32 - drawn)
	return max(own+random+uint32(time.Now().UnixNano()>>tick), 1)
}

// Of linux/tcp.h.
const (
	repairOn   = 1
	repairOff  = -1 // TCP_REPAIR_OFF_NO_WP: without a probe of the window
	queueSends = 2  // TCP_SEND_QUEUE
)

// setISN chooses the number of the SYN of a socket that has not connected. connect(2) keeps it, but
// where the connection takes the place of one of the same addresses that waits in TIME_WAIT: then the
// far end is not recognised, and requests go over TCP.
func setISN(fd int, syn uint32) error {
	for _, o := range []struct{ name, value int }{
		{unix.TCP_REPAIR, repairOn},
		{unix.TCP_REPAIR_QUEUE, queueSends},
		{unix.TCP_QUEUE_SEQ, int(int32(syn))},
		{unix.TCP_REPAIR, repairOff},
	} {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, o.name, o.value); err != nil {
			return fmt.Errorf("choose sequence number: set socket option %d of TCP: %w", o.name, err)
		}
	}
	return nil
}

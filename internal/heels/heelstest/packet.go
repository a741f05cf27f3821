// SPDX-License-Identifier: Apache-2.0

package heelstest

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// FinishChecksum does what the sender has left to its device: a packet socket sees it before.
func FinishChecksum(packet []byte) {
	header := int(packet[0]&15) * 4
	segment := packet[header:binary.BigEndian.Uint16(packet[2:])]
	segment[16], segment[17] = 0, 0
	sum := uint32(unix.IPPROTO_TCP) + uint32(len(segment))
	for _, part := range [][]byte{packet[12:20], segment} {
		for len(part) > 1 {
			sum += uint32(part[0])<<8 | uint32(part[1])
			part = part[2:]
		}
		if len(part) == 1 {
			sum += uint32(part[0]) << 8
		}
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(segment[16:], ^uint16(sum))
}

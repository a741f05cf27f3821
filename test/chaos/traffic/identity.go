// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"strconv"
	"strings"
)

// Limits of identities: they index the ledger.
const (
	maxProcesses = 2048
	maxConns     = 1 << 15
	// FirstCalmProcess is the first number of processes whose requests have no faults, on either side.
	FirstCalmProcess = maxProcesses - 16
	// maxRequests is the number of bits in a word of the ledger.
	maxRequests = 64
)

// ID names a request: the client's process, its connection, and the request's
// number on it. None is used twice in a run.
type ID struct{ Process, Conn, Request uint32 }

func (id ID) String() string { return fmt.Sprintf("%d.%d.%d", id.Process, id.Conn, id.Request) }

// ParseID reads what String wrote.
func ParseID(s string) (ID, error) {
	parts := strings.Split(s, ".")
	if len(parts) != 3 {
		return ID{}, fmt.Errorf("identity %q: want three numbers", s)
	}
	var numbers [3]uint32
	for i, limit := range []uint64{maxProcesses, maxConns, maxRequests} {
		n, err := strconv.ParseUint(parts[i], 10, 32)
		if err != nil || n >= limit {
			return ID{}, fmt.Errorf("identity %q: %q is no number below %d", s, parts[i], limit)
		}
		numbers[i] = uint32(n)
	}
	return ID{numbers[0], numbers[1], numbers[2]}, nil
}

// key mixes the seed, the identity and a purpose into one number.
func (id ID) key(seed uint64, purpose byte) uint64 {
	k := mix(seed ^ uint64(id.Process)<<32 ^ uint64(id.Conn))
	return mix(k ^ uint64(id.Request)<<8 ^ uint64(purpose))
}

// mix is the finalizer of SplitMix64: every bit of x changes about half of the
// result's.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

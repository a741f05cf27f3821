// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"regexp"
)

// ID names an exchange. None is used twice in a run.
type ID struct{ Process, Conn, Request uint32 }

const idFormat = "%04x.%06x.%06x"

// idLength is how long every identity is in text.
const idLength = 4 + 1 + 6 + 1 + 6

func (id ID) String() string { return fmt.Sprintf(idFormat, id.Process, id.Conn, id.Request) }

// parseID reads what String wrote.
func parseID(s string) (id ID, ok bool) {
	if len(s) != idLength {
		return ID{}, false
	}
	n, err := fmt.Sscanf(s, idFormat, &id.Process, &id.Conn, &id.Request)
	return id, err == nil && n == 3 && id.String() == s
}

// named matches an identity in bytes that went astray, with the place in its stream if they are of a body.
var named = regexp.MustCompile(`[0-9a-f]{4}\.[0-9a-f]{6}\.[0-9a-f]{6}(@[0-9a-f]{8})?`)

// owner is the first identity in b that is not id; "" if there is none. No process has the number 0: such a name is what is left of one of which bytes
// are missing, as where they were sent out of band.
func owner(b []byte, id ID) string {
	for _, found := range named.FindAll(b, -1) {
		other, ok := parseID(string(found[:idLength]))
		if ok && other != id && other.Process != 0 {
			return string(found)
		}
	}
	return ""
}

// key mixes the seed, the identity and a purpose into one number.
func (id ID) key(seed uint64, purpose byte) uint64 {
	k := mix(seed ^ uint64(id.Process)<<32 ^ uint64(id.Conn))
	return mix(k ^ uint64(id.Request)<<8 ^ uint64(purpose))
}

// mix is the finalizer of SplitMix64: every bit of x changes about half of the result's.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

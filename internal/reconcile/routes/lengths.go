// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"strings"

	"github.com/xlb-project/xlb/internal/maps"
)

// pathLengths are the lengths that keys of a virtual host in the hash may have, as struct vhost of bpf/lib/abi.h says it: a byte for
// each, the longest lowest. 0: none.
type pathLengths uint64

const (
	// fewLengths are tried sooner than the trie is walked, whatever else is in it.
	fewLengths = 3
	// ManyPaths of a virtual host make the trie so deep that more lengths are tried sooner.
	ManyPaths = 64
)

// lengthByte is what stands for a key's length. All whole paths have one.
func lengthByte(key string) int {
	if strings.HasSuffix(key, "\x00") {
		return int(maps.WholePath)
	}
	return len(key) + 1
}

// inHash reports whether new entries belong into the hash, and their lengths.
func (r *Reconciler) inHash(entries []pathEntry) (pathLengths, bool) {
	lengths, fits := pathLengths(0).with(entries)
	if !fits || lengths.count() > fewLengths && len(entries) < r.manyPaths {
		return 0, false
	}
	return lengths, true
}

func (l pathLengths) count() (n int) {
	for ; l != 0; l >>= 8 {
		n++
	}
	return n
}

// with adds the lengths of entries. It reports whether programs can try such keys, and so many lengths.
func (l pathLengths) with(entries []pathEntry) (more pathLengths, fits bool) {
	var has [maps.WholePath + 1]bool
	for ; l != 0; l >>= 8 {
		has[l&0xff] = true
	}
	for i := range entries {
		if len(entries[i].key) > int(maps.MaxPathText) {
			return 0, false
		}
		has[lengthByte(entries[i].key)] = true
	}
	count := 0
	for length := range has { // the longest is added last, and lies lowest
		if has[length] {
			count++
			more = more<<8 | pathLengths(length)
		}
	}
	return more, count <= int(maps.MaxPathLengths)
}

// beginnings calls f for each text of these lengths that begins a key and is shorter.
func (l pathLengths) beginnings(key string, f func(string)) {
	for ; l != 0; l >>= 8 {
		if n := int(l&0xff) - 1; n < len(key) {
			f(key[:n])
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package hashing

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// Sum is Envoy's hash of texts in their order: xxHash64, each with the hash of those before as its seed, of the first 0.
func Sum(texts ...string) uint64 {
	var hash uint64
	for _, text := range texts {
		hash = seeded(text, hash)
	}
	return hash
}

func seeded(text string, seed uint64) uint64 {
	if seed == 0 {
		return xxhash.Sum64String(text)
	}
	d := xxhash.NewWithSeed(seed)
	_, _ = d.WriteString(text) // never fails
	return d.Sum64()
}

// Combine joins the hash of a request so far with that of the next policy: rotated, so that two equal ones do not cancel each other out.
func Combine(before, next uint64) uint64 { return (before<<1 | before>>63) ^ next }

// Constants of murmur2 with 64 bits, as libstdc++'s std::hash<std::string> has it.
const (
	murmurSeed     = 0xc70f6907
	murmurMultiply = 0xc6a4a7935bd1e995
	murmurShift    = 47
)

// murmur2 is what Envoy calls MURMUR_HASH_2.
func murmur2(text []byte) uint64 {
	mix := func(v uint64) uint64 { return v ^ v>>murmurShift }
	hash := murmurSeed ^ uint64(len(text))*murmurMultiply
	for ; len(text) >= 8; text = text[8:] {
		hash = (hash ^ mix(binary.LittleEndian.Uint64(text)*murmurMultiply)*murmurMultiply) * murmurMultiply
	}
	if len(text) > 0 {
		var rest [8]byte
		copy(rest[:], text)
		hash = (hash ^ binary.LittleEndian.Uint64(rest[:])) * murmurMultiply
	}
	return mix(mix(hash) * murmurMultiply)
}

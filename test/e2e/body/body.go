// SPDX-License-Identifier: Apache-2.0

// Package body makes byte streams that both ends of a test can produce from a
// seed, so that neither has to keep or send a reference copy.
package body

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"io"
	"math/rand/v2"
)

// blockSize is the unit of repetition. Every block carries its own index, so
// that blocks which are lost, doubled or swapped change the digest.
const blockSize = 64 << 10

// stream is an endless repetition of one random block, stamped with its index.
type stream struct {
	block [blockSize]byte
	index uint64
	rest  []byte
}

// New returns a reader of size bytes that depend on seed alone.
func New(seed uint64, size int64) io.Reader {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	s := &stream{}
	// ChaCha8.Read is documented never to fail.
	_, _ = rand.NewChaCha8(key).Read(s.block[:])
	return io.LimitReader(s, size)
}

// Read fills p; it never fails and never ends.
func (s *stream) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		binary.LittleEndian.PutUint64(s.block[:], s.index)
		s.index++
		s.rest = s.block[:]
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Digest returns the SHA-256 of New(seed, size) in hexadecimal.
func Digest(seed uint64, size int64) string {
	h := sha256.New()
	// Neither side of this copy can fail.
	_, _ = io.Copy(h, New(seed, size))
	return Sum(h)
}

// Sum returns what h has digested so far in hexadecimal.
func Sum(h hash.Hash) string {
	return hex.EncodeToString(h.Sum(nil))
}

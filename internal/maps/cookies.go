// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/internal/maps/bpfmap"
)

// CookieKeyOf is a socket's cookie as the key of a trie.
func CookieKeyOf(cookie uint64) CookieKey {
	return CookieKey{PrefixLen: uint32(CookieBits), Cookie: [2]uint32{uint32(cookie), uint32(cookie >> 32)}}
}

func (k CookieKey) cookie() uint64 { return uint64(k.Cookie[1])<<32 | uint64(k.Cookie[0]) }

// cookieTable is a trie whose keys are whole cookies: it takes memory for what it holds only.
type cookieTable[V any] struct{ trie bpfmap.Table[CookieKey, V] }

func newCookieTable[V any](name string, m *ebpf.Map) bpfmap.Table[uint64, V] {
	return cookieTable[V]{bpfmap.NewTable[CookieKey, V](name, m)}
}

func (t cookieTable[V]) Put(cookie uint64, v V) error { return t.trie.Put(CookieKeyOf(cookie), v) }

func (t cookieTable[V]) PutAll(cookies []uint64, values []V) (int, error) {
	keys := make([]CookieKey, len(cookies))
	for i, cookie := range cookies {
		keys[i] = CookieKeyOf(cookie)
	}
	return t.trie.PutAll(keys, values)
}

func (t cookieTable[V]) Delete(cookie uint64) error { return t.trie.Delete(CookieKeyOf(cookie)) }

func (t cookieTable[V]) Lookup(cookie uint64) (V, bool, error) {
	return t.trie.Lookup(CookieKeyOf(cookie))
}

func (t cookieTable[V]) Each(f func(uint64, V) bool) error {
	return t.trie.Each(func(k CookieKey, v V) bool { return f(k.cookie(), v) })
}

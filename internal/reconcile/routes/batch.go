// SPDX-License-Identifier: Apache-2.0

package routes

import "github.com/xlb-project/xlb/internal/maps/bpfmap"

// batch are entries that are written together. The order in which programs come to see them is of no consequence.
type batch[K comparable, V any] struct {
	keys   []K
	values []V
}

func (b *batch[K, V]) add(k K, v V) {
	b.keys = append(b.keys, k)
	b.values = append(b.values, v)
}

// put writes the entries and counts them.
func (b *batch[K, V]) put(count *int, into bpfmap.Table[K, V]) error {
	n, err := into.PutAll(b.keys, b.values)
	*count += n
	return err
}

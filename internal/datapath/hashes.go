// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"

	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/maps/bpfmap"
)

// hashes are those that grow.
type hashes struct {
	pathTexts *bpfmap.GrowingHash[maps.PathText, maps.PathRoutes]
	buckets   *bpfmap.GrowingHash[maps.BucketKey, uint32]
	values    *bpfmap.GrowingHash[maps.ValueKey, maps.Value]
}

func (d *Datapath) wrapHashes(spec *ebpf.CollectionSpec) {
	m := &d.objects.xlbMaps
	d.hashes = hashes{
		pathTexts: growing[maps.PathText, maps.PathRoutes](spec, xlbMapPathTexts, m.PathTexts, m.PathTextsFirst),
		buckets:   growing[maps.BucketKey, uint32](spec, xlbMapBuckets, m.Buckets, m.BucketsFirst),
		values:    growing[maps.ValueKey, maps.Value](spec, xlbMapValues, m.Values, m.ValuesFirst),
	}
}

func growing[K comparable, V any](spec *ebpf.CollectionSpec, name string, outer, first *ebpf.Map) *bpfmap.GrowingHash[K, V] {
	return bpfmap.NewGrowingHash[K, V](name, outer, first, spec.Maps[firstOf(name)], uint32(maps.MaxGrown))
}

// firstOf is what the first map of a hash that grows is called in bpf/lib/maps.h. In the kernel it has the hash's name, as those that follow it.
func firstOf(name string) string { return name + "_first" }

func nameFirst(spec *ebpf.CollectionSpec) {
	for _, name := range []string{xlbMapPathTexts, xlbMapBuckets, xlbMapValues} {
		spec.Maps[firstOf(name)].Name = name
	}
}

// close lets go of the maps; those of a datapath that was not loaded are nil.
func (h *hashes) close() error {
	if h.pathTexts == nil {
		return nil
	}
	return errors.Join(h.pathTexts.Close(), h.buckets.Close(), h.values.Close())
}

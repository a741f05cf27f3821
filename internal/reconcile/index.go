// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/maps"
)

func (r *Reconciler) writeBuckets(v *version) error {
	for _, b := range v.table.Buckets {
		v.buckets++
		value := maps.Candidates{First: v.routes.first + b.First, Count: b.Count}
		if err := put(&r.stats.Buckets, r.cfg.Buckets, v.bucketKey(b), value); err != nil {
			return err
		}
	}
	return nil
}

func (v *version) bucketKey(b compile.Bucket) maps.BucketKey {
	return maps.BucketKey{Tuple: v.tupleNumbers.nth(b.Tuple), Classes: b.Classes}
}

func (r *Reconciler) writeTuples(v *version) error {
	for i, t := range v.table.Tuples {
		tuple := maps.Tuple{
			Order: t.Order, Number: v.tupleNumbers.nth(t.Number), First: v.routes.first + t.First, Count: t.Count, Slots: t.Slots,
		}
		if err := put(&r.stats.Tuples, r.cfg.Tuples, v.tuples.first+uint32(i), tuple); err != nil {
			return err
		}
	}
	return nil
}

// eraseBuckets deletes the indexes of an unlinked version.
func (r *Reconciler) eraseBuckets(v *version) error {
	for ; v.buckets > 0; v.buckets-- {
		if err := remove(&r.stats.Buckets, r.cfg.Buckets, v.bucketKey(v.table.Buckets[v.buckets-1])); err != nil {
			return err
		}
	}
	return nil
}

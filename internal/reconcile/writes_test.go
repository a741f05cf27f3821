// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/test/mapstest"
)

var largeSizes = maps.Sizes{
	Listeners: 8, RouteTables: 8, VHosts: 1 << 12, Routes: 40000, Splits: 8, Tuples: 8, Schedules: 8, BucketLists: 40000, Clusters: 8, Groups: 16, Endpoints: 8,
	Automata: 64, Cells: 65536, Accepts: 65536,
}

// TestAChangedRouteWritesOnlyWhatItMust counts the writes for one route of 10,000. A route that leads where others lead needs no list of its own.
func TestAChangedRouteWritesOnlyWhatItMust(t *testing.T) {
	onePath := map[string]reconcile.Stats{
		"cluster": {Routes: 1, Paths: 1},
		"timeout": {Routes: 1, Paths: 1},
		"match":   {Paths: 2},
		"insert":  {Paths: 1},
		"remove":  {Paths: 1},
	}
	// A route of an expression is in one of 1,250 pages of lists; the numbers of a quarter of these take 11 entries. A changed expression is in one of
	// four automata, of which each takes some 5,600.
	page := reconcile.Stats{Routes: 1, Accepts: 8, Cells: 11, Automata: 4, Paths: 1}
	want := map[string]map[string]reconcile.Stats{
		"exact": onePath, "prefix": onePath, "hosts": onePath,
		"header": {
			"cluster": {Routes: 1, BucketLists: 1},
			"timeout": {Routes: 1, BucketLists: 1},
			"match":   {Values: 2, Buckets: 2, BucketLists: 1},
			"insert":  {Values: 1, Buckets: 1, BucketLists: 1},
			"remove":  {Values: 1, Buckets: 1},
		},
		"expression": {
			"cluster": page,
			"timeout": page,
			"match":   {Cells: 5606, Automata: 4, Paths: 1},
			"insert":  {Cells: 5620, Accepts: 8, Automata: 4, Paths: 1},
			"remove":  {Cells: 5613, Accepts: 8, Automata: 4, Paths: 1},
		},
	}
	for _, k := range kindsOfTables {
		r := reconcile.New(mapstest.NewFakeConfig(largeSizes, nil), maps.NewHeapShared(largeSizes), slog.New(slog.DiscardHandler))
		compiler, before := compile.NewCompiler(), k.table()
		for _, c := range changesOfOne {
			t.Run(k.name+"/"+c.name, func(t *testing.T) {
				apply(t, r, compiler, configOf(before))
				got := apply(t, r, compiler, configOf(changedTable(k, before, c.change)))
				if diff := cmp.Diff(got, want[k.name][c.name]); diff != "" {
					t.Errorf("writes (-got +want):\n%s", diff)
				}
			})
		}
	}
}

func apply(t *testing.T, r *reconcile.Reconciler, c *compile.Compiler, cfg *model.Config) reconcile.Stats {
	t.Helper()
	image, _ := c.Compile(cfg)
	stats, err := r.Apply(image)
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

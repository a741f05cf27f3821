// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/hashing"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/test/mapstest"
)

// hashes are the cluster's daemon's table, and its places in the kernel; nil: there are none.
func hashes(t *testing.T, r *Reconciler, sh *maps.Shared) (table *maps.HashTable, places []maps.HashPlace) {
	t.Helper()
	index, ok := r.ClusterIndex(model.SharedCluster("c"))
	if !ok {
		t.Fatal("no cluster")
	}
	group := uint32(sh.Clusters[index].Root)
	if word := sh.Groups[group].Table; word != 0 {
		first := uint32(word)
		places = sh.HashPlaces[first : first+uint32(word>>32)]
	}
	return sh.HashTables[group].Load(), places
}

// ringOver is a cluster with a ring of so many points over the ports.
func ringOver(points uint64, ports ...uint16) *compile.Image {
	c := &model.Cluster{Name: "c", Policy: model.RingHash, Hashing: model.Hashing{Ring: hashing.RingSize{Min: points, Max: points}}}
	for _, port := range ports {
		c.Endpoints = append(c.Endpoints, model.Endpoint{Address: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port), Weight: 1})
	}
	im, _ := compile.Compile(&model.Config{Clusters: []*model.Cluster{c}})
	return im
}

func TestKernelGetsTablesThatFindRoom(t *testing.T) {
	const room = 40
	sizes := maps.Sizes{Clusters: 4, Groups: 16, Endpoints: 16, Schedules: 64, HashPlaces: room}
	sh := maps.NewHeapShared(sizes)
	r := New(mapstest.NewFakeConfig(sizes, nil), sh, slog.New(slog.DiscardHandler))
	var before *maps.HashTable
	for _, step := range []struct {
		name   string
		points uint64
		ports  []uint16
		places int
		isSame bool
	}{
		{"the first", 16, []uint16{1, 2}, 16, false},
		{"again", 16, []uint16{1, 2}, 16, true},
		{"another, beside the first", 24, []uint16{1, 2}, 24, false},
		{"one that is too large", 64, []uint16{1, 2}, 0, false},
		{"a smaller one, where the last one was", 40, []uint16{2, 3}, 40, false},
		{"no room beside that", 8, []uint16{2, 3}, 0, false},
	} {
		if _, err := r.Apply(ringOver(step.points, step.ports...)); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		table, places := hashes(t, r, sh)
		switch {
		case table == nil || uint64(table.Len()) != step.points:
			t.Fatalf("%s: the daemon has no table of %d places", step.name, step.points)
		case (table == before) != step.isSame:
			t.Errorf("%s: the table is the one before: %v, want %v", step.name, table == before, step.isSame)
		case len(places) != step.places:
			t.Fatalf("%s: %d places in the kernel, want %d", step.name, len(places), step.places)
		}
		for _, p := range places {
			if want := table.Endpoints[table.Pick(p.Hash, 0)]; p.Endpoint != want {
				t.Errorf("%s: hash %#x leads to endpoint %d, want %d", step.name, p.Hash, p.Endpoint, want)
			}
		}
		before = table
	}
}

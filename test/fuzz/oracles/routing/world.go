// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/test/mapstest"
	"github.com/xlb-project/xlb/test/routes"
)

const (
	seed = 1
	// tables is how many there are: the first byte of an input chooses one.
	tables = 256
	// seedsEach is how many inputs are made for each table.
	seedsEach = 16
)

// world is the tables, and the maps that hold them.
type world struct {
	drawn  []*routes.Table
	models []*model.RouteTable
	cfg    *maps.Config
	// clusters are names by index.
	clusters map[uint32]string
	random   routes.World
}

func newWorld() (*world, error) {
	w := &world{random: routes.NewWorld(seed), clusters: map[uint32]string{}}
	var listeners, clusters []any
	for i := range tables {
		t := w.random.Table()
		w.drawn = append(w.drawn, t)
		listeners = append(listeners, t.Listener(fmt.Sprint("table", i), addressOf(i), toClusters))
		for n := len(clusters); n <= t.Routes(); n++ {
			clusters = append(clusters, routes.Object{"name": routes.ClusterOf(n)})
		}
	}
	text, err := json.Marshal(routes.Object{"static_resources": routes.Object{"listeners": listeners, "clusters": clusters}})
	if err != nil {
		return nil, err
	}
	parsed, err := config.Parse("drawn.json", text)
	if err != nil {
		return nil, err
	}
	for _, l := range parsed.Listeners {
		w.models = append(w.models, l.Routes)
	}
	return w, w.load(parsed)
}

func addressOf(table int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 80, 1, byte(table)}), routes.Port)
}

// toClusters gives each third route two clusters.
func toClusters(route int) routes.Object {
	if route%3 != 0 {
		return routes.Object{"route": routes.Object{"cluster": routes.ClusterOf(route)}}
	}
	return routes.Object{"route": routes.Object{"weighted_clusters": routes.Object{"clusters": []any{
		routes.Object{"name": routes.ClusterOf(route), "weight": 3}, routes.Object{"name": routes.ClusterOf(route + 1), "weight": 2},
	}}}}
}

// sizes are enough for all tables.
var sizes = maps.Sizes{
	Listeners: 2 * tables, RouteTables: tables + 1, VHosts: 1 << 12, Routes: 1 << 18, Splits: 1 << 16, Tuples: 1 << 16, BucketLists: 1 << 16, Schedules: 1 << 16,
	Automata: 1 << 12, Cells: 1 << 18, Accepts: 1 << 16, AcceptedValues: 1 << 16, Clusters: 1 << 12, Groups: 1 << 13, Endpoints: 1,
}

func (w *world) load(cfg *model.Config) error {
	image, _ := compile.Compile(cfg)
	w.cfg = mapstest.NewFakeConfig(sizes, nil)
	r := reconcile.New(w.cfg, maps.NewHeapShared(sizes), slog.New(slog.DiscardHandler))
	if _, err := r.Apply(image); err != nil {
		return err
	}
	for _, c := range r.Clusters() {
		w.clusters[c.Index] = c.Key.Name
	}
	return nil
}

// writeSeeds writes inputs as fuzz_route.c reads them.
func (w *world) writeSeeds(dir string) error {
	for i, t := range w.drawn {
		for n := range seedsEach {
			input := binary.NativeEndian.AppendUint64([]byte{byte(i)}, w.random.Uint64())
			input = append(input, w.random.Request(t).Bytes()...)
			name := filepath.Join(dir, fmt.Sprintf("table%d-%d", i, n))
			if err := os.WriteFile(name, input, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

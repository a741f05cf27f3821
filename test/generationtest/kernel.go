// SPDX-License-Identifier: Apache-2.0

// Package generationtest makes generations without a kernel, from small configurations.
package generationtest

import (
	"fmt"
	"iter"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/balance"
	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/test/mapstest"
)

// Kernel is a reconciler of maps that are in this process.
type Kernel struct {
	*reconcile.Reconciler
	Shared *maps.Shared
	// Writing, if there is one, is called before each write to the maps.
	Writing func()
}

// maxEndpoints is how many endpoints there may be.
const maxEndpoints = 64

// NewKernel makes one without any configuration.
func NewKernel() *Kernel {
	sizes := maps.Sizes{
		Listeners: 4, RouteTables: 4, VHosts: 8, Routes: 64, Splits: 64, Rewrites: 8, Tuples: 1, BucketLists: 1, Automata: 1, Cells: 1, Accepts: 1, AcceptedValues: 1,
		Schedules: 1 << 10, Clusters: 64, Groups: 256, Endpoints: maxEndpoints,
	}
	k := &Kernel{Shared: maps.NewHeapShared(sizes)}
	tables := mapstest.NewFakeConfig(sizes, func() bool {
		if k.Writing != nil {
			k.Writing()
		}
		return false
	})
	k.Reconciler = reconcile.New(tables, k.Shared, slog.New(slog.DiscardHandler))
	return k
}

// Next switches the maps to a configuration, and returns the generation that follows the one before.
func (k *Kernel) Next(t testing.TB, before *generation.Generation, cfg *model.Config) *generation.Generation {
	t.Helper()
	image, notes := compile.Compile(cfg)
	if err := k.Switch(image); err != nil {
		t.Fatal(err)
	}
	changes := k.Changed()
	return before.Next(&generation.Input{Config: cfg, Notes: notes, Changes: &changes, Kernel: k, At: time.Now()})
}

// Endpoints yields the endpoints of a generation by index, those that have gone included.
func Endpoints(g *generation.Generation) iter.Seq2[uint32, *reconcile.EndpointEntry] {
	return func(yield func(uint32, *reconcile.EndpointEntry) bool) {
		for index := range uint32(maxEndpoints) {
			if e := g.EndpointAt(index); e != nil && !yield(index, e) {
				return
			}
		}
	}
}

// Chosen are the ports of the endpoints that so many choices come to, each once; "none" stands for no endpoint. All that count are given back.
func (k *Kernel) Chosen(t testing.TB, pick func() (slowpath.ChosenEndpoint, bool)) string {
	t.Helper()
	var list []string
	for range 64 {
		e, ok := pick()
		if !ok {
			list = append(list, "none")
			continue
		}
		list = append(list, fmt.Sprint(e.Address().Port()))
		if i, ok := e.(interface{ Index() uint32 }); ok {
			k.giveBack(t, i.Index())
		}
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), " ")
}

// giveBack ends the one use of an endpoint.
func (k *Kernel) giveBack(t testing.TB, index uint32) {
	t.Helper()
	if n := atomic.LoadUint32(&k.Shared.Endpoints[index].Outstanding); n != 1 {
		t.Fatalf("endpoint %d has %d requests outstanding, want 1", index, n)
	}
	balance.New(k.Shared).Done(index)
}

// Anywhere skips no endpoint.
func Anywhere(netip.AddrPort) bool { return false }

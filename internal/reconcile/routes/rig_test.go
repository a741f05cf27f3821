// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/maps/bpfmap"
	"github.com/xlb-project/xlb/internal/reconcile/writes"
	"github.com/xlb-project/xlb/test/mapstest"
	"github.com/xlb-project/xlb/test/suite"
)

// fewPaths are enough in tests for many lengths in the hash.
const fewPaths = 5

// rig is a reconciler of routes over maps in memory, whose writes of hosts and paths can be watched.
type rig struct {
	r   *Reconciler
	cfg *maps.Config
	// wrote is called after every write and every wait; nil is not.
	wrote func(what string)
}

func newRig(t *testing.T, manyPaths int) *rig {
	t.Helper()
	sizes := maps.Sizes{VHosts: 16, BucketLists: 1}
	g := &rig{cfg: mapstest.NewFakeConfig(sizes, nil)}
	g.r = New(Config{
		Maps: g.cfg, Indices: NewAllocators(sizes, maps.NewHeapShared(sizes)), Stats: &writes.Stats{}, ManyPaths: manyPaths,
		Wait: func() error { g.note("wait"); return nil },
	})
	g.cfg.Hosts = watchedTable[maps.HostKey, uint32]{g.cfg.Hosts, g, func(maps.HostKey) string { return "hosts" }}
	g.cfg.VHosts = watchedTable[uint32, uint64]{g.cfg.VHosts, g, func(k uint32) string { return fmt.Sprint("vhosts ", k) }}
	g.cfg.PathTexts = watchedTable[maps.PathText, maps.Candidates]{g.cfg.PathTexts, g, func(k maps.PathText) string {
		return fmt.Sprintf("path_texts %d %q", k.Vhost, k.Text[:k.Len])
	}}
	return g
}

func (g *rig) note(what string) {
	if g.wrote != nil {
		g.wrote(what)
	}
}

// hosts are the entries of both tries of hosts.
func (g *rig) hosts() hostState {
	state := hostState{}
	g.cfg.Hosts.Each(func(k maps.HostKey, v uint32) bool { state[k] = v; return true })
	return state
}

// word is what programs read of a virtual host.
func (g *rig) word(v *vhost) uint64 {
	word, _, _ := g.cfg.VHosts.Lookup(v.number.First)
	return word
}

// watchedTable is a table that tells a rig of its writes.
type watchedTable[K comparable, V any] struct {
	bpfmap.Table[K, V]
	g    *rig
	name func(K) string
}

func (w watchedTable[K, V]) Put(k K, v V) error {
	if err := w.Table.Put(k, v); err != nil {
		return err
	}
	w.g.note(fmt.Sprintf("put %s = %v", w.name(k), v))
	return nil
}

func (w watchedTable[K, V]) PutAll(keys []K, values []V) (int, error) {
	for i := range keys {
		if err := w.Put(keys[i], values[i]); err != nil {
			return i, err
		}
	}
	return len(keys), nil
}

func (w watchedTable[K, V]) Delete(k K) error {
	if err := w.Table.Delete(k); err != nil {
		return err
	}
	w.g.note("delete " + w.name(k))
	return nil
}

// drawing draws entries.
type drawing struct{ *rand.Rand }

func newDrawing(t *testing.T) drawing { return drawing{rand.New(rand.NewPCG(suite.Seed(t), 0))} }

// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/test/suite"
)

// kernel has clusters, and tables of routes that lead to them, as a change writes them: first the clusters, one after another, then the tables, one view after another.
type kernel struct {
	*world
	// ports are those of clusters, tables the keys of each view's names.
	ports  map[model.ClusterKey]uint16
	tables []map[string]model.ClusterKey
	// history is what each view says of each name, or has said since all was quiet.
	history []map[string][]uint16
}

func newKernel(w *world) *kernel {
	k := &kernel{world: w, ports: map[model.ClusterKey]uint16{}}
	for range w.parts {
		k.tables, k.history = append(k.tables, map[string]model.ClusterKey{}), append(k.history, map[string][]uint16{})
	}
	return k
}

// says notes what views say now.
func (k *kernel) says(said []map[string]uint16) {
	for v, of := range said {
		for name, port := range of {
			if !slices.Contains(k.history[v][name], port) {
				k.history[v][name] = append(k.history[v][name], port)
			}
		}
	}
}

// write writes what was merged, and fails after that many writes; a negative number never comes. It reports whether all is written.
func (k *kernel) write(writes int) bool {
	k.t.Helper()
	fails := func() bool {
		k.compare()
		writes--
		return writes == -1
	}
	for _, c := range k.got.Config.Clusters {
		if fails() {
			return false
		}
		k.ports[c.Key()] = c.Endpoints[0].Address.Port()
	}
	for v := range k.tables {
		if fails() {
			return false
		}
		k.tables[v] = map[string]model.ClusterKey{}
		if part := k.parts[v]; part != nil {
			for _, c := range part.Clusters {
				k.tables[v][c.Name] = k.key(v, c.Name)
			}
		}
	}
	k.compare()
	return true
}

// compare sees that no table leads to what its view has never said.
func (k *kernel) compare() {
	k.t.Helper()
	for v, table := range k.tables {
		for name, key := range table {
			if !slices.Contains(k.history[v][name], k.ports[key]) {
				k.t.Fatalf("view %d, whose %s was one of %v, is led to %s, %d", v, name, k.history[v][name], key, k.ports[key])
			}
		}
	}
}

// merge has the views be merged and written; it fails after that many writes.
func (k *kernel) merge(writes int) bool {
	k.t.Helper()
	k.got = k.m.Merge(k.parts, k.now)
	if !k.write(writes) {
		k.m.Tried(k.got)
		return false
	}
	k.m.Accept(k.got)
	return true
}

// Where a change fails half way, what follows leads no view to what it has never said, whether the views say the same again or something else.
func TestAChangeThatFailsHalfWayLeadsNoViewToAnothers(t *testing.T) {
	seed := suite.Seed(t)
	failed, distinct := 0, 0
	for round := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, round))
		views := 2 + random.IntN(4)
		k := newKernel(newWorld(t, views))
		k.m.Apart = time.Duration(round%2) * 4 * patience
		said := make([]map[string]uint16, views)
		for v := range said {
			said[v] = map[string]uint16{"a": 1, "b": 1}
		}
		for range 60 {
			name, port := string(rune('a'+random.IntN(2))), uint16(1+random.IntN(4))
			for v := range said {
				if random.IntN(2) == 0 {
					said[v][name] = port
					k.say(v, said[v])
				}
			}
			k.says(said)
			k.now = k.now.Add(time.Duration(random.IntN(4)) * patience / 4)
			if !k.merge(random.IntN(24)) {
				failed++
				continue
			}
			distinct += len(k.got.Config.Clusters)
			if len(k.m.tried) > 0 {
				t.Fatal("what was tried is kept when another is in force")
			}
			if random.IntN(3) > 0 {
				continue
			}
			for !k.got.Next.IsZero() {
				k.now = k.got.Next
				k.merge(-1)
			}
			for v := range said {
				k.history[v] = map[string][]uint16{}
			}
			k.says(said)
		}
	}
	if failed < 500 || distinct < 1000 {
		t.Errorf("%d changes failed half way, %d clusters came of the others; want more", failed, distinct)
	}
}

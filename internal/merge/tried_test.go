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
	// Tables of views that have gone are taken away last.
	for i := range 2 * len(k.tables) {
		v := i % len(k.tables)
		if (k.parts[v] == nil) != (i >= len(k.tables)) {
			continue
		}
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
			k.quiet()
		}
	}
	if failed < 500 || distinct < 1000 {
		t.Errorf("%d changes failed half way, %d clusters came of the others; want more", failed, distinct)
	}
}

// What is refused comes back as it was, several views change in one attempt, and views come and go.
func TestWhatComesBackAfterAFailureLeadsNoViewToAnothers(t *testing.T) {
	seed := suite.Seed(t)
	failed := 0
	for round := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, round))
		views := 2 + random.IntN(4)
		k := newKernel(newWorld(t, views))
		k.m.Apart = time.Duration(round%2) * 4 * patience
		k.say(0, map[string]uint16{"a": 1, "b": 1})
		k.saysNow()
		for range 60 {
			before := slices.Clone(k.parts)
			name, port := string(rune('a'+random.IntN(2))), uint16(1+random.IntN(4))
			for v := range views {
				switch {
				case random.IntN(2) == 0:
				case v > 0 && random.IntN(6) == 0:
					k.parts[v] = nil
				default:
					said := k.saidBy(v)
					said[name] = port
					k.say(v, said)
				}
			}
			k.saysNow()
			k.now = k.now.Add(time.Duration(random.IntN(4)) * patience / 4)
			if !k.merge(random.IntN(16)) {
				failed++
				if random.IntN(2) == 0 {
					k.parts = before
				}
				continue
			}
			if random.IntN(3) == 0 {
				k.quiet()
			}
		}
	}
	if failed < 1000 {
		t.Errorf("%d changes failed, want more", failed)
	}
}

// saidBy is what a view says, or what it begins with.
func (k *kernel) saidBy(view int) map[string]uint16 {
	said := map[string]uint16{"a": 1, "b": 1}
	if k.parts[view] != nil {
		for _, c := range k.parts[view].Clusters {
			said[c.Name] = c.Endpoints[0].Address.Port()
		}
	}
	return said
}

// saysNow notes what views say now.
func (k *kernel) saysNow() {
	said := make([]map[string]uint16, len(k.parts))
	for v := range said {
		if k.parts[v] != nil {
			said[v] = k.saidBy(v)
		}
	}
	k.says(said)
}

// quiet has the time pass until no view waits. What views have said before counts no longer.
func (k *kernel) quiet() {
	k.t.Helper()
	for !k.got.Next.IsZero() {
		k.now = k.got.Next
		k.merge(-1)
	}
	for v := range k.history {
		k.history[v] = map[string][]uint16{}
	}
	k.saysNow()
}

// What a daemon keeps of changes that fail is as much as there are clusters, however many fail.
func TestChangesThatFailAreKeptOnceACluster(t *testing.T) {
	for name, ports := range map[string][]uint16{"shared": {1, 1, 1}, "its own": {1, 2, 3}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, len(ports))
			for v, port := range ports {
				w.say(v, map[string]uint16{"a": port})
			}
			w.merge()
			for i := range uint16(200) {
				w.say(1, map[string]uint16{"a": 10 + i})
				w.now = w.now.Add(2 * patience)
				w.m.Tried(w.m.Merge(w.parts, w.now))
			}
			if n := len(w.m.tried["a"]); n > len(ports) {
				t.Errorf("%d groups are kept, want at most one for each of %d views", n, len(ports))
			}
		})
	}
}

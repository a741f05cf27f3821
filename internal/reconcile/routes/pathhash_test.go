// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
)

// hashState is what the maps hold of one virtual host.
type hashState struct {
	lengths uint64
	entries map[maps.PathText]maps.Candidates
}

func (g *rig) hashState(v *vhost) hashState {
	s := hashState{lengths: g.word(v), entries: map[maps.PathText]maps.Candidates{}}
	g.cfg.PathTexts.Each(func(k maps.PathText, c maps.Candidates) bool { s.entries[k] = c; return true })
	return s
}

// hashLookUp is one of a path, with its terminator, of which the lengths are to be tried yet.
type hashLookUp struct {
	vhost   *vhost
	path    string
	lengths uint64
}

// ends reports every end that it may have if the states follow each other while it goes on, from the first of them.
func (l hashLookUp) ends(states []hashState, end func(first uint32)) {
	if l.lengths == 0 {
		end(0)
		return
	}
	n := min(int(l.lengths&0xff)-1, len(l.path))
	rest := hashLookUp{l.vhost, l.path, l.lengths >> 8}
	for i := range states {
		if c, is := states[i].entries[l.vhost.hashKey(l.path[:n])]; is {
			end(c.First)
			continue
		}
		rest.ends(states[i:], end)
	}
}

// lookUps lets look-ups begin in each of the states.
func lookUps(v *vhost, path string, states []hashState, end func(first uint32)) {
	for i, s := range states {
		hashLookUp{v, path, s.lengths}.ends(states[i:], end)
	}
}

// pathsAlong draws entries for the beginnings of a path with its terminator.
func (w drawing) pathsAlong(path string, of int) (list []pathEntry) {
	for n := range len(path) + 1 {
		if w.IntN(of) == 0 {
			list = append(list, pathEntry{key: path[:n], value: maps.Candidates{First: 1 + w.Uint32N(40), Count: 1}})
		}
	}
	return list
}

// hashRules demands that no entry is written twice, and no memory used again, before programs were waited for.
type hashRules struct {
	written map[string]bool
	freed   bool
}

func (r *hashRules) check(what string, isNew bool) error {
	key, isPut := strings.CutPrefix(what, "put path_texts ")
	key, _, _ = strings.Cut(key, " = ")
	switch {
	case what == "wait":
		*r = hashRules{written: map[string]bool{}}
	case strings.HasPrefix(what, "delete path_texts "):
		r.freed = true
	case isPut && r.written[key]:
		return fmt.Errorf("%s a second time", what)
	case isPut && isNew && r.freed:
		return fmt.Errorf("%s in the place of a deleted entry", what)
	case isPut:
		r.written[key] = true
	}
	return nil
}

// TestLookUpsInTheHashThatTakeTimeFindTheOldEntryOrTheNew lets look-ups try the beginnings of one path while the hash changes between
// their steps. A program is waited for by waitForReaders: so none lasts longer than from one to the next.
func TestLookUpsInTheHashThatTakeTimeFindTheOldEntryOrTheNew(t *testing.T) {
	const path = "/aaa\x00"
	w := newDrawing(t)
	waited := 0
	for range 4000 {
		g := newRig(t, 0)
		v, err := g.r.newVHost("vh", w.pathsAlong(path, 1+w.IntN(4)))
		if err == nil {
			err = g.r.writeVHosts([]*vhost{v})
		}
		if err != nil || !v.isHashed {
			t.Fatal(v, err)
		}
		have, want := fmt.Sprint(v.entries), w.pathsAlong(path, 1+w.IntN(4))
		before := g.hashState(v)
		periods, rules := [][]hashState{{before}}, hashRules{written: map[string]bool{}}
		g.wrote = func(what string) {
			states, now := &periods[len(periods)-1], g.hashState(v)
			if err := rules.check(what, len(now.entries) > len((*states)[len(*states)-1].entries)); err != nil {
				t.Fatal(err)
			}
			if what == "wait" {
				waited++
				periods = append(periods, []hashState{now})
				return
			}
			*states = append(*states, now)
		}
		if err := g.r.patchVHost(v, want); err != nil {
			t.Fatal(err)
		}
		after := g.hashState(v)
		if lengths, _ := pathLengths(0).with(want); after.lengths != uint64(lengths) {
			t.Fatalf("%s became %v: lengths %#x", have, want, after.lengths)
		}
		if !reflect.DeepEqual(after.entries, entriesOf(v, want)) {
			t.Fatalf("%s became %v, want %v", have, after, want)
		}
		first, last := foundIn(v, path, before), foundIn(v, path, after)
		for _, states := range periods {
			lookUps(v, path, states, func(got uint32) {
				if got != first && got != last {
					t.Fatalf("from %s to %v a look-up found %d, before %d, then %d", have, want, got, first, last)
				}
			})
		}
	}
	t.Logf("waited %d times", waited)
	if waited < 100 {
		t.Errorf("waited %d times, want at least 100", waited)
	}
}

func entriesOf(v *vhost, list []pathEntry) map[maps.PathText]maps.Candidates {
	all := map[maps.PathText]maps.Candidates{}
	for _, e := range list {
		all[v.hashKey(e.key)] = e.value
	}
	return all
}

// foundIn is what a look-up finds while nothing changes.
func foundIn(v *vhost, path string, s hashState) (first uint32) {
	lookUps(v, path, []hashState{s}, func(got uint32) { first = got })
	return first
}

// TestNoEntryTakesTheMemoryOfOneThatIsRead changes two virtual hosts: what the first change deletes, programs may read during the second.
func TestNoEntryTakesTheMemoryOfOneThatIsRead(t *testing.T) {
	g := newRig(t, fewPaths)
	entry := func(key string) []pathEntry { return []pathEntry{{key: key}} }
	var vhosts []*vhost
	for _, name := range []string{"a", "b"} {
		v, err := g.r.newVHost(name, entry("/old"))
		if err != nil {
			t.Fatal(err)
		}
		vhosts = append(vhosts, v)
	}
	if err := g.r.writeVHosts(vhosts); err != nil {
		t.Fatal(err)
	}
	var writes []string
	g.wrote = func(what string) { what, _, _ = strings.Cut(what, " ="); writes = append(writes, what) }
	for _, v := range vhosts {
		if err := g.r.patchVHost(v, entry("/new")); err != nil {
			t.Fatal(err)
		}
	}
	want := `put path_texts 1 "/new", delete path_texts 1 "/old", wait, put path_texts 2 "/new", delete path_texts 2 "/old"`
	if got := strings.Join(writes, ", "); got != want {
		t.Errorf("writes: %s\nwant: %s", got, want)
	}
}

// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/reconcile/indices"
)

// hostState is what the two tries of hosts hold for the beginnings of one host.
type hostState map[maps.HostKey]uint32

// passes are the keys that a look-up of the host passes, in the order of time. What it found backward counts, if there is any;
// otherwise what it found forward; and of each the last.
func passes(v *Version, host string) (keys []maps.HostKey) {
	for _, d := range directions {
		for n := range len(host) + 1 {
			keys = append(keys, v.hostKey(d, host[:n]))
		}
	}
	return keys
}

// lookup passes the keys from one on, each in some state that is not before the last one's, and reports every end.
func lookup(states []hostState, keys []maps.HostKey, state int, found [2]uint32, end func(vhost uint32)) {
	if len(keys) == 0 {
		if found[maps.HostBackward] == 0 {
			end(found[maps.HostForward])
			return
		}
		end(found[maps.HostBackward])
		return
	}
	for s := state; s < len(states); s++ {
		next := found
		if v, is := states[s][keys[0]]; is {
			next[keys[0].Scope%2] = v
		}
		lookup(states, keys[1:], s, next, end)
	}
}

func (s hostState) find(keys []maps.HostKey) (vhost uint32) {
	lookup([]hostState{s}, keys, 0, [2]uint32{}, func(v uint32) { vhost = v })
	return vhost
}

// hostsAlong draws entries for the beginnings of a host.
func (w drawing) hostsAlong(host string, of int) (list hostEntries) {
	for _, d := range directions {
		for n := range len(host) + 1 {
			if w.IntN(of) == 0 {
				list[d] = append(list[d], hostEntry{host[:n], 1 + w.Uint32N(40)})
			}
		}
	}
	return list
}

// TestLookUpsThatTakeTimeFindTheOldEntryOrTheNew lets look-ups pass the keys of one text while the tries change between them. A
// program is waited for by waitForReaders: so no look-up lasts longer than from one to the next.
func TestLookUpsThatTakeTimeFindTheOldEntryOrTheNew(t *testing.T) {
	const host = "aa"
	w := newDrawing(t)
	waited := 0
	for range 4000 {
		g := newRig(t, fewPaths)
		v := &Version{index: indices.Span{First: 1, Count: 1}}
		have, want := w.hostsAlong(host, 1+w.IntN(4)), w.hostsAlong(host, 1+w.IntN(4))
		if err := g.r.patchHosts(v, have); err != nil {
			t.Fatal(err)
		}
		keys := passes(v, host)
		before := g.hosts()
		periods := [][]hostState{{before}}
		g.wrote = func(what string) {
			if what == "wait" {
				waited++
				periods = append(periods, nil)
			}
			last := len(periods) - 1
			periods[last] = append(periods[last], g.hosts())
		}
		if err := g.r.patchHosts(v, want); err != nil {
			t.Fatal(err)
		}
		after := g.hosts()
		if got := fmt.Sprint(v.hosts); got != fmt.Sprint(want) || len(after) != len(want[0])+len(want[1]) {
			t.Fatalf("%v became %s in %v, want %v", have, got, after, want)
		}
		for _, states := range periods {
			lookup(states, keys, 0, [2]uint32{}, func(got uint32) {
				if got != before.find(keys) && got != after.find(keys) {
					t.Fatalf("from %v to %v a look-up found %d, before %d, then %d", have, want, got, before.find(keys), after.find(keys))
				}
			})
		}
	}
	t.Logf("waited %d times", waited)
	if waited < 100 {
		t.Errorf("waited %d times, want at least 100", waited)
	}
}

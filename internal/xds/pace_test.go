// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"testing"
	"time"
)

func TestUpdatesHaveAFifthOfAProcessorAndShortOnesDoNotWait(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name string
		// took is how long each update takes, every how soon there is something new.
		took, every time.Duration
		// least and most are how many updates there are in 10 s; longest is the longest time that a change waits for one to begin.
		least, most int
		longest     time.Duration
	}{
		{"short and frequent", 1 * ms, 10 * ms, 1000, 1000, 0},
		{"long and rare", 20 * ms, 200 * ms, 50, 50, 0},
		{"as much as there may be", 2 * ms, 10 * ms, 1000, 1000, 0},
		{"short and all the time", 1 * ms, 0, 2000, 2100, 4 * ms},
		{"long and frequent", 20 * ms, 10 * ms, 100, 110, 80 * ms},
		{"very long", time.Second, 10 * ms, 8, 8, maxRest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := NewPace()
			now := time.Unix(1, 0)
			updates, longest := 0, time.Duration(0)
			for end := now.Add(10 * time.Second); now.Before(end); updates++ {
				rest := p.rest(now, tt.took)
				longest = max(longest, rest)
				now = now.Add(max(tt.took+rest, tt.every))
			}
			if updates < tt.least || updates > tt.most || longest > tt.longest {
				t.Errorf("%d updates, want %d to %d; the longest rest is %s, want %s at most", updates, tt.least, tt.most, longest, tt.longest)
			}
		})
	}
}

func TestOneSlowUpdateDelaysNone(t *testing.T) {
	p := NewPace()
	now := time.Unix(1, 0)
	// What the other programs of a busy host take counts as well.
	for _, took := range []time.Duration{time.Millisecond, 20 * time.Millisecond, time.Millisecond} {
		if rest := p.rest(now, took); rest > 0 {
			t.Errorf("after an update of %s: a rest of %s, want none", took, rest)
		}
		now = now.Add(took + 10*time.Millisecond)
	}
}

// However many clients never rest, together they have hardly more than one of them would have; and each goes on.
func TestClientsOfOnePaceShareAFifthOfAProcessor(t *testing.T) {
	const took, end, clients = 20 * time.Millisecond, 10 * time.Second, 5
	p := NewPace()
	begin := time.Unix(1, 0)
	next := make([]time.Time, clients)
	for i := range next {
		p.join()
		next[i] = begin
	}
	updates := make([]int, clients)
	for {
		first := 0
		for i := range next {
			if next[i].Before(next[first]) {
				first = i
			}
		}
		if next[first].Sub(begin) > end {
			break
		}
		rest := p.rest(next[first], took)
		if rest > clients*maxRest {
			t.Fatalf("a rest of %s", rest)
		}
		next[first] = next[first].Add(took + rest)
		updates[first]++
	}
	all, fewest := 0, updates[0]
	for _, n := range updates {
		all, fewest = all+n, min(fewest, n)
	}
	if most := int(end/took)/5 + 15; all > most || all < int(end/took)/5 || fewest < all/clients/2 {
		t.Errorf("updates %v, %d of all clients; want %d to %d, and no client left out", updates, all, int(end/took)/5, most)
	}
}

func TestAClientThatHasEndedAddsNoRest(t *testing.T) {
	p := NewPace()
	for range 4 {
		p.join()
	}
	for range 3 {
		p.leave()
	}
	if rest := p.rest(time.Unix(1, 0), time.Minute); rest != maxRest {
		t.Errorf("a rest of %s, want %s", rest, maxRest)
	}
}

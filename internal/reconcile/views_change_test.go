// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/merge"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/test/suite"
)

// changing is views that share a cluster, each with its own content of it, and what they have said of it.
type changing struct {
	*rig
	m       *merge.Merger
	now     time.Time
	parts   []*model.Config
	history map[int][]string
	// writes are those that were made, each followed by watch, if there is one.
	writes int
	watch  func(what string)
}

func newChanging(t *testing.T, views int) *changing {
	c := &changing{rig: newRig(t), m: merge.New(merge.Times{Patience: time.Second}), now: time.Unix(1, 0), parts: []*model.Config{{}}, history: map[int][]string{}}
	c.wrote = func(what string) {
		c.writes++
		if c.watch != nil {
			c.watch(what)
		}
	}
	for v := 1; v <= views; v++ {
		c.parts = append(c.parts, nil)
		c.say(v, 8000)
	}
	if err := c.put(); err != nil {
		t.Fatal(err)
	}
	return c
}

// say has a view have its cluster at a port; 0: it has gone.
func (c *changing) say(v, port int) {
	c.parts[v] = nil
	if port != 0 {
		c.parts[v] = likeAnother(viewNumber(v), single(endpointOn(port, 1)))
		c.history[v] = append(c.history[v], address(port).String())
	}
}

// put puts in force what they say.
func (c *changing) put() error {
	got, before := c.m.Merge(c.parts, c.now), c.writes
	im, _ := compile.Compile(got.Config)
	err := c.r.Switch(im)
	_, isUnfinished := errors.AsType[*UnfinishedError](err)
	switch {
	case err == nil:
		c.m.Accept(got)
		err = c.r.Reclaim()
	case isUnfinished:
		c.m.Tried(got)
	case c.writes > before:
		c.t.Fatalf("%v says that nothing was written; %d writes", err, c.writes-before)
	}
	return err
}

// leadsTo are the endpoints to which requests of a view's workload may go now; nil: the view has no listener.
func (c *changing) leadsTo(v model.View) (list []string) {
	key := maps.KeyOf(address(80))
	key.View = v.Number
	number, found, _ := c.kernel.cfg.VIPs.Lookup(key)
	if !found {
		return nil
	}
	got := c.kernel.route(number, &matcher.Request{Method: "GET", Authority: "any", Path: "/"}, 0)
	if got.verdict != maps.VerdictOk {
		return []string{maps.VerdictName(got.verdict)}
	}
	at := map[uint32]string{}
	for _, e := range c.r.clusters.Endpoints() {
		at[e.Index] = e.Address.String()
	}
	for _, e := range c.kernel.schedule(got.cluster) {
		list = append(list, at[e])
	}
	return list
}

// requireOwn fails where a view is led to what it has never said.
func (c *changing) requireOwn(when string) {
	c.t.Helper()
	for v, ports := range c.history {
		for _, e := range c.leadsTo(viewNumber(v)) {
			if !slices.Contains(ports, e) {
				c.t.Errorf("view %d is led to %s, and said %v: %s", v, e, ports, when)
			}
		}
	}
}

// At no moment of a change is a view led to endpoints that it has never said, also where the change fails.
func TestNoViewIsLedToAnothersEndpointsDuringAChange(t *testing.T) {
	tests := []struct {
		name string
		// change is made when views 1 and 2 have shared a cluster, and wait, if waits.
		change func(c *changing)
		waits  bool
	}{
		{"both have waited for something else", func(c *changing) { c.say(1, 8001); c.say(2, 8002) }, true},
		{"one goes, one changes", func(c *changing) { c.say(1, 0); c.say(2, 8002) }, false},
		{"one goes whose cluster the other has kept, and that one changes", func(c *changing) { c.say(2, 0); c.say(1, 8001) }, false},
	}
	for _, tt := range tests {
		for failing := range 4 {
			t.Run(fmt.Sprintf("%s, the write %d fails", tt.name, failing), func(t *testing.T) {
				c := newChanging(t, 2)
				tt.change(c)
				if tt.waits {
					if err := c.put(); err != nil {
						t.Fatal(err)
					}
					c.now = c.now.Add(time.Second)
				}
				c.watch = func(what string) { c.requireOwn("behind the write of " + what) }
				writes := 0
				c.fail = func() bool { writes++; return writes == failing }
				for range 3 {
					if err := c.put(); err != nil && failing == 0 {
						t.Fatal(err)
					}
					c.requireOwn("behind a change")
				}
				for v, ports := range c.history {
					if c.parts[v] != nil && !slices.Equal(c.leadsTo(viewNumber(v)), ports[len(ports)-1:]) {
						t.Errorf("view %d is led to %v in the end, and said %v", v, c.leadsTo(viewNumber(v)), ports)
					}
				}
			})
		}
	}
}

// Whatever fails half way, and whatever the views say next.
func TestNoViewIsLedToAnothersEndpointsThoughWritesFail(t *testing.T) {
	const views = 4
	random := rand.New(rand.NewPCG(suite.Seed(t), 0))
	failed := 0
	for range 120 {
		c := newChanging(t, views)
		c.watch = func(what string) { c.requireOwn("behind the write of " + what) }
		for range 40 {
			port := 8000 + random.IntN(4)
			for v := 1; v <= views; v++ {
				if random.IntN(2) == 0 {
					c.say(v, port)
				}
			}
			c.now = c.now.Add(time.Duration(random.IntN(3)) * time.Second / 2)
			left := 1 + random.IntN(10)
			c.fail = func() bool { left--; return left == 0 }
			if c.put() != nil {
				failed++
				continue
			}
			c.fail = nil
			if random.IntN(3) > 0 {
				c.quiet()
			}
		}
		if t.Failed() {
			return
		}
	}
	if failed < 300 {
		t.Errorf("%d changes failed, want more", failed)
	}
}

// quiet has the time pass until no view waits. What views have said before counts no longer.
func (c *changing) quiet() {
	for range 3 {
		c.now = c.now.Add(time.Second)
		if err := c.put(); err != nil {
			c.t.Fatal(err)
		}
	}
	for v, ports := range c.history {
		c.history[v] = ports[len(ports)-1:]
	}
}

// The key of a cluster is no other view's in the change in which its last view goes: the table of that leads there still.
func TestNoViewIsLedToAClusterThatHasItsKeyNext(t *testing.T) {
	c := newChanging(t, 2)
	c.say(1, 0)
	if err := c.put(); err != nil {
		t.Fatal(err)
	}
	c.say(1, 9000)
	c.say(2, 0)
	c.watch = func(what string) { c.requireOwn("behind the write of " + what) }
	if err := c.put(); err != nil {
		t.Fatal(err)
	}
	if got := c.leadsTo(viewNumber(1)); !slices.Equal(got, []string{address(9000).String()}) {
		t.Errorf("view 1 is led to %v", got)
	}
}

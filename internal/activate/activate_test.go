// SPDX-License-Identifier: Apache-2.0

package activate

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/balance"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/selection"
	"github.com/xlb-project/xlb/internal/shutdown"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/generationtest"
)

// balancing balances without a kernel and without connections.
type balancing struct {
	*Activator
	t         *testing.T
	kernel    *generationtest.Kernel
	selector  *selection.Selector
	followers []func(*Change)
	// leaves is called before endpoints are forgotten.
	leaves func()
	log    strings.Builder
}

func newBalancing(t *testing.T, cfg *model.Config) *balancing {
	k := generationtest.NewKernel()
	b := &balancing{t: t, kernel: k}
	b.Activator = New(Config{
		Reconciler: k.Reconciler, Logger: slog.New(slog.NewTextHandler(&b.log, nil)), Ending: make(chan struct{}),
		Complete: func(cfg *model.Config) *model.Config { return cfg }, ClustersLeave: func() {},
		Followers: []func(*Change){func(c *Change) {
			for _, follow := range b.followers {
				follow(c)
			}
		}},
	})
	b.selector = selection.New(selection.Config{
		Generation: b.Generation, AwaitSwitch: b.AwaitSwitch, Picker: balance.New(k.Shared), Shared: k.Shared, RetryRoot: k.RetryRoot,
		Done: func(uint32, slowpath.Outcome) {}, Answered: func(uint32, workload.ID) {},
	})
	b.use(cfg)
	return b
}

// use puts a configuration in force.
func (b *balancing) use(cfg *model.Config) {
	b.t.Helper()
	if err := b.Activate(cfg); err != nil {
		b.t.Error(err)
	}
}

// beginUse begins to put a configuration in force, and stops between its clusters and its routes until the function that it returns is called.
func (b *balancing) beginUse(cfg *model.Config) (end func()) {
	at, on, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	b.kernel.Writing = func() {
		b.kernel.Writing = nil
		close(at)
		<-on
	}
	go func() {
		defer close(ended)
		b.use(cfg)
	}()
	<-at
	return func() {
		close(on)
		<-ended
	}
}

// pick chooses for a request that has found its route at this moment.
func (b *balancing) pick() (slowpath.ChosenEndpoint, bool) {
	return b.selector.Pick(b.Generation().Cluster(model.SharedCluster("web")), "", 0, generationtest.Anywhere)
}

func TestChoicesDoNotWaitForAConfigurationThatIsBeingPutInForce(t *testing.T) {
	b := newBalancing(t, generationtest.PortsOf(1, 1, 2))
	end := b.beginUse(generationtest.PortsOf(2, 2, 3))
	if got := b.kernel.Chosen(t, b.pick); got != "2" {
		t.Errorf("meanwhile: %s, want 2, which is of both", got)
	}
	end()
	if got := b.kernel.Chosen(t, b.pick); got != "2 3" {
		t.Errorf("afterwards: %s, want 2 3", got)
	}
}

func TestChoicesWaitForAConfigurationOfWhichTheyKnowNoEndpoint(t *testing.T) {
	b := newBalancing(t, generationtest.PortsOf(1, 1, 2))
	end := b.beginUse(generationtest.PortsOf(2, 3, 4))
	chosen := make(chan string)
	go func() {
		chosen <- b.kernel.Chosen(t, b.pick)
	}()
	select {
	case got := <-chosen:
		t.Errorf("chosen among endpoints that are not known yet: %s", got)
	case <-time.After(20 * time.Millisecond):
	}
	end()
	if got := <-chosen; got != "3 4" {
		t.Errorf("chosen: %s, want 3 4", got)
	}
}

// An index that has been released is given to another endpoint before that is known.
func TestChoicesDoNotTakeANewEndpointForTheOneBefore(t *testing.T) {
	b := newBalancing(t, generationtest.PortsOf(1, 1, 2))
	b.use(generationtest.PortsOf(1, 2))
	for index, e := range generationtest.Endpoints(b.Generation()) {
		if e.Gone && !b.kernel.ReleaseEndpoint(index) {
			t.Fatalf("endpoint %d is not released", index)
		}
	}
	end := b.beginUse(generationtest.PortsOf(2, 2, 3))
	if got := b.kernel.Chosen(t, b.pick); got != "2" {
		t.Errorf("meanwhile: %s, want 2", got)
	}
	end()
}

// A configuration that comes when the daemon ends is neither compiled nor put in force.
func TestNothingIsPutInForceAtTheEnd(t *testing.T) {
	b := newBalancing(t, generationtest.PortsOf(1, 1, 2))
	ending := make(chan struct{})
	close(ending)
	b.cfg.Ending = ending
	before := b.Generation()
	b.followers = []func(*Change){func(*Change) { t.Error("a follower is called") }}
	if err := b.Activate(generationtest.PortsOf(2, 3)); !errors.Is(err, shutdown.ErrEnding) {
		t.Errorf("got %v, want that the daemon ends", err)
	}
	if b.Generation() != before {
		t.Error("another configuration is in force")
	}
}

// Followers get what has changed, with what was in force before and what is now. What a generation is asked for is of that one.
func TestFollowersGetTheChange(t *testing.T) {
	b := newBalancing(t, generationtest.PortsOf(1, 1, 2))
	before, calls := b.Generation(), 0
	b.followers = []func(*Change){func(c *Change) {
		calls++
		if c.Before != before || c.Now != b.Generation() || c.LostClusters {
			t.Errorf("change %+v", c)
		}
		if len(c.Kernel.Endpoints) == 0 {
			t.Error("no endpoint has changed")
		}
	}}
	b.use(generationtest.PortsOf(2, 2, 3))
	if calls != 1 {
		t.Errorf("called %d times, want once", calls)
	}
	if b.While(before, func() { t.Error("called for what is no longer in force") }) {
		t.Error("what was replaced counts as in force")
	}
	called := false
	if !b.While(b.Generation(), func() { called = true }) || !called {
		t.Error("not called for what is in force")
	}
	b.followers = []func(*Change){func(c *Change) {
		if !c.LostClusters {
			t.Error("a cluster has gone, and the change does not say so")
		}
	}}
	b.use(&model.Config{})
}

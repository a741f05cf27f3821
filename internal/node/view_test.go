// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/generationtest"
)

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

func TestChoicesDoNotWaitForAConfigurationThatIsBeingPutInForce(t *testing.T) {
	b := newBalancing(t, generationtest.PortsOf(1, 1, 2))
	pick := func() (slowpath.Picked, bool) { return balancer{b.Node}.Pick("web", "", 0, anywhere) }
	end := b.beginUse(generationtest.PortsOf(2, 2, 3))
	if got := b.chosen(pick); got != "2" {
		t.Errorf("meanwhile: %s, want 2, which is of both", got)
	}
	end()
	if got := b.chosen(pick); got != "2 3" {
		t.Errorf("afterwards: %s, want 2 3", got)
	}
}

func TestChoicesWaitForAConfigurationOfWhichTheyKnowNoEndpoint(t *testing.T) {
	b := newBalancing(t, generationtest.PortsOf(1, 1, 2))
	end := b.beginUse(generationtest.PortsOf(2, 3, 4))
	chosen := make(chan string)
	go func() {
		chosen <- b.chosen(func() (slowpath.Picked, bool) { return balancer{b.Node}.Pick("web", "", 0, anywhere) })
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
	for index, e := range generationtest.Endpoints(b.generation.Load()) {
		if e.Gone && !b.reconcil.ReleaseEndpoint(index) {
			t.Fatalf("endpoint %d is not released", index)
		}
	}
	end := b.beginUse(generationtest.PortsOf(2, 2, 3))
	if got := b.chosen(func() (slowpath.Picked, bool) { return balancer{b.Node}.Pick("web", "", 0, anywhere) }); got != "2" {
		t.Errorf("meanwhile: %s, want 2", got)
	}
	end()
}

// The entry of a subset that a new configuration does not have is empty before the routes to it are gone.
func TestChoicesThatFindNothingAreMadeAgainWhenTheConfigurationIsInForce(t *testing.T) {
	b := newBalancing(t, generationtest.PortsOf(1, 1))
	looks, chosen := make(chan bool, 2), make(chan bool)
	b.switching.Lock()
	go func() {
		_, ok := b.choose(func(g *generation.Generation) (slowpath.Picked, bool) {
			isFirst := len(looks) == 0
			looks <- isFirst
			if isFirst {
				return nil, false
			}
			return balancer{b.Node}.pick(g, "web", "", 0, anywhere)
		})
		chosen <- ok
	}()
	await.Quiet(t, func() string {
		if len(looks) == 0 {
			return "no look"
		}
		return ""
	})
	now := *b.generation.Load()
	b.generation.Store(&now)
	b.switching.Unlock()
	if !<-chosen || len(looks) != 2 {
		t.Errorf("%d looks, want a second one that finds an endpoint", len(looks))
	}
}

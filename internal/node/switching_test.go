// SPDX-License-Identifier: Apache-2.0

package node

import (
	"log/slog"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/datapath"
	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/test/generationtest"
)

// balancing is a node that balances, without a kernel and without connections.
type balancing struct {
	*Node
	t      *testing.T
	kernel *generationtest.Kernel
}

func newBalancing(t *testing.T, cfg *model.Config) *balancing {
	k := generationtest.NewKernel()
	b := &balancing{t: t, kernel: k}
	b.Node = &Node{log: slog.New(slog.DiscardHandler), reconcil: k.Reconciler, datapath: &datapath.Datapath{Shared: k.Shared}}
	b.selector = b.newSelector()
	b.generation.Store(generation.Empty())
	b.use(cfg)
	return b
}

// use puts a configuration in force.
func (b *balancing) use(cfg *model.Config) {
	b.t.Helper()
	image, notes := compile.Compile(cfg)
	if _, err := b.activate(cfg, image, nil, notes); err != nil {
		b.t.Fatal(err)
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

func TestChoicesDoNotWaitForAConfigurationThatIsBeingPutInForce(t *testing.T) {
	b := newBalancing(t, generationtest.PortsOf(1, 1, 2))
	pick := func() (slowpath.Picked, bool) { return b.selector.Pick("web", "", 0, generationtest.Anywhere) }
	end := b.beginUse(generationtest.PortsOf(2, 2, 3))
	if got := b.kernel.Chosen(t, pick); got != "2" {
		t.Errorf("meanwhile: %s, want 2, which is of both", got)
	}
	end()
	if got := b.kernel.Chosen(t, pick); got != "2 3" {
		t.Errorf("afterwards: %s, want 2 3", got)
	}
}

func TestChoicesWaitForAConfigurationOfWhichTheyKnowNoEndpoint(t *testing.T) {
	b := newBalancing(t, generationtest.PortsOf(1, 1, 2))
	end := b.beginUse(generationtest.PortsOf(2, 3, 4))
	chosen := make(chan string)
	go func() {
		chosen <- b.kernel.Chosen(t, func() (slowpath.Picked, bool) { return b.selector.Pick("web", "", 0, generationtest.Anywhere) })
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
	if got := b.kernel.Chosen(t, func() (slowpath.Picked, bool) { return b.selector.Pick("web", "", 0, generationtest.Anywhere) }); got != "2" {
		t.Errorf("meanwhile: %s, want 2", got)
	}
	end()
}

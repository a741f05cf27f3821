// SPDX-License-Identifier: Apache-2.0

package viewctl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/workload"
)

// byName has a view for each network namespace with a name that begins with t, beside blue.
const byName = `views:
- {name: blue, config: blue.yaml, select: [{netns: blue}]}
- {name: t, config: t.yaml, select: [{cgroup: /t}], for_each: [netns], node: {id: "{netns}"}}
`

func inNetns(name string) workload.Facts {
	return workload.Facts{Cgroup: "/t", Netns: "/run/netns/" + name}
}

func TestAViewOfATemplateComesWithItsFirstWorkload(t *testing.T) {
	r := newRig(t, byName)
	number := r.Of(inNetns("one"))
	if got := r.NameOf(number); got != "t/one" || number != 2 {
		t.Errorf("the workload sees the view %d, %q", number, got)
	}
	r.addMade(t.Context(), time.Now())
	r.mustHaveCalled("add 2 t/one of t.yaml", "took")
	if got := r.Of(inNetns("one")); got != number {
		t.Errorf("the next one sees %d, want %d", got, number)
	}
	r.addMade(t.Context(), time.Now())
	r.mustHaveCalled()
	if diff := cmp.Diff([]string{"blue", "t/one"}, r.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	// A view of the file gets another number.
	r.reload(byName + view("green"))
	r.mustHaveCalled("add 3 green of green.yaml", "await", "took", "choose")
}

func TestServeAddsAViewAtOnce(t *testing.T) {
	r := newRig(t, byName)
	ctx, end := context.WithCancel(t.Context())
	added := make(chan struct{})
	r.onAdd = func() { close(added) }
	served := make(chan struct{})
	go func() { defer close(served); r.Serve(ctx, nil) }()
	r.Of(inNetns("one"))
	<-added // there is no ticker
	end()
	<-served
}

func TestViewsOfWorkloadsThatAreThereAtTheStartComeTogether(t *testing.T) {
	r := newRig(t, byName)
	r.Of(inNetns("one"))
	r.Of(inNetns("two"))
	r.Begin(t.Context())
	r.mustHaveCalled("add 2 t/one of t.yaml", "add 3 t/two of t.yaml", "took")
}

// A file is in force as a whole, with what its templates make for the workloads that there are.
func TestWorkloadsSeeWhatATemplateMakesOnceThatIsThere(t *testing.T) {
	r := newRig(t, two)
	r.facts = []workload.Facts{{Host: true}, inNetns("one"), inNetns("blue")}
	r.reload(byName)
	r.mustHaveCalled("add 3 t/one of t.yaml", "await", "took", "choose")
	if got := r.NameOf(r.Of(inNetns("one"))); got != "t/one" {
		t.Errorf("it sees %q", got)
	}
	r.addMade(t.Context(), time.Now())
	r.mustHaveCalled()
}

func TestAViewOfATemplateWithAnotherNodeIsReplaced(t *testing.T) {
	r := newRig(t, byName)
	r.facts = []workload.Facts{inNetns("one")}
	number := r.Of(inNetns("one"))
	r.Begin(t.Context())
	r.mustHaveCalled("add 2 t/one of t.yaml", "took")
	changed := strings.Replace(byName, `id: "{netns}"`, `id: "x-{netns}"`, 1)
	r.reload(changed)
	r.mustHaveCalled("add 2 t/one of t.yaml", "await", "took", "choose")
	if got := r.Of(inNetns("one")); got != number {
		t.Errorf("it sees %d, want %d", got, number)
	}
	r.addMade(t.Context(), time.Now())
	r.mustHaveCalled()
	// One that no workload saw then is replaced when one comes that does.
	r.Of(inNetns("two"))
	r.addMade(t.Context(), time.Now())
	r.facts = nil
	r.reload(byName)
	r.mustHaveCalled("add 3 t/two of t.yaml", "took", "took", "choose")
	r.Of(inNetns("two"))
	r.addMade(t.Context(), time.Now())
	r.mustHaveCalled("add 3 t/two of t.yaml", "took")
}

func TestATemplateWithABadBootstrapIsRefusedBeforeAnyWorkloadNeedsIt(t *testing.T) {
	r := newRig(t, two)
	r.fails["load t/netns"] = errors.New("no such file")
	r.reload(byName)
	r.mustHaveCalled("refused: view t/netns: no such file")
}

func TestAViewOfATemplateGoesWhenItIsUnseen(t *testing.T) {
	r := newRig(t, byName)
	number := r.Of(inNetns("one"))
	r.Begin(t.Context())
	r.mustHaveCalled("add 2 t/one of t.yaml", "took")
	now := time.Now()
	at := func(after time.Duration, want ...string) {
		t.Helper()
		r.removeDeparted(now.Add(after))
		r.mustHaveCalled(want...)
	}
	r.seen = map[uint32]bool{number: true}
	at(0)
	at(time.Hour)
	r.seen, r.inUse = nil, map[uint32]bool{number: true}
	at(time.Hour + time.Second)
	at(time.Hour + time.Second + linger)
	r.inUse = nil
	r.fails["remove"] = errors.New("no room")
	at(2*time.Hour, "remove t/one")
	if got := r.Of(inNetns("one")); got != number {
		t.Errorf("a view that could not be removed is %d, want %d", got, number)
	}
	delete(r.fails, "remove")
	at(3 * time.Hour)
	at(4*time.Hour, "remove t/one")
	at(5 * time.Hour)
	if got := r.NameOf(number); got != "" {
		t.Errorf("what has gone is called %q", got)
	}
	if got := r.Of(inNetns("one")); got != number+1 {
		t.Errorf("it comes back as %d, want a number that no view has had", got)
	}
	r.addMade(t.Context(), time.Now())
	r.mustHaveCalled("add 3 t/one of t.yaml", "took")
}

// Connections that nothing ends do not keep a view for good.
func TestAnUnseenViewWaitsForItsConnectionsForSoLong(t *testing.T) {
	r := newRig(t, byName)
	number := r.Of(inNetns("one"))
	r.Begin(t.Context())
	r.inUse, r.calls = map[uint32]bool{number: true}, nil
	now := time.Now()
	r.removeDeparted(now)
	r.removeDeparted(now.Add(departure - time.Second))
	r.mustHaveCalled()
	r.removeDeparted(now.Add(departure))
	r.mustHaveCalled("remove t/one")
}

// A workload may come while the view goes: what it has got stays.
func TestAWorkloadThatComesKeepsTheViewThatItSees(t *testing.T) {
	tests := []struct {
		name string
		// comes is called when the Controller looks for the second time at what workloads see.
		comes func(r *rig, number uint32)
	}{
		{"behind the look", func(r *rig, number uint32) {
			if got := r.Of(inNetns("one")); got != number {
				r.t.Errorf("it sees %d, want %d", got, number)
			}
		}},
		{"before the look", func(r *rig, number uint32) { r.seen = map[uint32]bool{number: true} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, byName)
			number := r.Of(inNetns("one"))
			r.Begin(t.Context())
			r.calls = nil
			now := time.Now()
			r.removeDeparted(now)
			looks := 0
			r.onLook = func() {
				if looks++; looks == 2 {
					tt.comes(r, number)
				}
			}
			r.removeDeparted(now.Add(linger))
			if looks != 2 {
				t.Errorf("it has looked %d times, want twice", looks)
			}
			r.mustHaveCalled()
			if got := r.NameOf(number); got != "t/one" {
				t.Errorf("it is called %q", got)
			}
		})
	}
}

func TestARefusedViewOfATemplateLeavesTheOthersThere(t *testing.T) {
	r := newRig(t, byName)
	r.fails["load t/bad"] = errors.New("no such file")
	r.Of(inNetns("bad"))
	r.Of(inNetns("one"))
	now := time.Now()
	r.addMade(t.Context(), now)
	r.mustHaveCalled("refused: view t/bad: no such file", "add 3 t/one of t.yaml")
	// It retries, later each time, and says so once.
	r.addMade(t.Context(), now)
	r.mustHaveCalled()
	r.addMade(t.Context(), now.Add(2*retryPace))
	r.mustHaveCalled()
	delete(r.fails, "load t/bad")
	r.addMade(t.Context(), now.Add(retryPace))
	r.mustHaveCalled()
	r.addMade(t.Context(), now.Add(time.Hour))
	r.mustHaveCalled("add 2 t/bad of t.yaml", "took")
}

func TestThereIsABoundOfViewsOfTemplates(t *testing.T) {
	r := newRig(t, byName)
	for i := range maxMade + 2 {
		r.Of(inNetns(fmt.Sprintf("%d", i)))
	}
	r.addMade(t.Context(), time.Now())
	r.addMade(t.Context(), time.Now())
	if got := strings.Count(r.log.String(), "there is no room"); got != 1 {
		t.Errorf("%d lines say that there is no room, want one", got)
	}
	if len(r.calls) != maxMade {
		t.Errorf("%d views were added, want %d", len(r.calls), maxMade)
	}
}

// Workloads come from other goroutines than Serve's.
func TestWorkloadsComeWhileViewsComeAndGo(t *testing.T) {
	r := newRig(t, byName)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 200 {
				r.Of(inNetns(fmt.Sprintf("%d-%d", i, j%7)))
				r.NameOf(uint32(j))
				r.Names()
			}
		})
	}
	for i := range 50 {
		r.addMade(t.Context(), time.Now())
		r.removeDeparted(time.Now().Add(time.Duration(i) * time.Hour))
	}
	all.Wait()
}

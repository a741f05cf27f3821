// SPDX-License-Identifier: Apache-2.0

package viewctl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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
	if got := r.NameOf(number); got != "t/netns=one" || number != 2 {
		t.Errorf("the workload sees the view %d, %q", number, got)
	}
	r.addMade(t.Context(), time.Now())
	r.mustHaveCalled("add 2 t/netns=one of t.yaml")
	if got := r.Of(inNetns("one")); got != number {
		t.Errorf("the next one sees %d, want %d", got, number)
	}
	r.addMade(t.Context(), time.Now())
	r.mustHaveCalled()
	if diff := cmp.Diff([]string{"blue", "t/netns=one"}, r.Names()); diff != "" {
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
	r.mustHaveCalled("add 2 t/netns=one of t.yaml", "add 3 t/netns=two of t.yaml")
}

// A file is in force as a whole, with what its templates make for the workloads that there are.
func TestWorkloadsSeeWhatATemplateMakesOnceThatIsThere(t *testing.T) {
	r := newRig(t, two)
	r.facts = []workload.Facts{{Host: true}, inNetns("one"), inNetns("blue")}
	r.reload(byName)
	r.mustHaveCalled("add 3 t/netns=one of t.yaml", "await", "took", "choose")
	if got := r.NameOf(r.Of(inNetns("one"))); got != "t/netns=one" {
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
	r.mustHaveCalled("add 2 t/netns=one of t.yaml")
	changed := strings.Replace(byName, `id: "{netns}"`, `id: "x-{netns}"`, 1)
	r.reload(changed)
	r.mustHaveCalled("add 2 t/netns=one of t.yaml", "await", "took", "choose")
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
	r.mustHaveCalled("add 3 t/netns=two of t.yaml", "took", "choose")
	r.Of(inNetns("two"))
	r.addMade(t.Context(), time.Now())
	r.mustHaveCalled("add 3 t/netns=two of t.yaml")
}

func TestATemplateWithABadBootstrapIsRefusedBeforeAnyWorkloadNeedsIt(t *testing.T) {
	r := newRig(t, two)
	r.fails["load t/netns=netns"] = errors.New("no such file")
	r.reload(byName)
	r.mustHaveCalled("refused: view t/netns=netns: no such file")
}

func TestAViewOfATemplateGoesWhenItIsUnseen(t *testing.T) {
	r := newRig(t, byName)
	number := r.Of(inNetns("one"))
	r.Begin(t.Context())
	r.mustHaveCalled("add 2 t/netns=one of t.yaml")
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
	at(2*time.Hour, "remove t/netns=one")
	at(2*time.Hour + retryPace/2)
	delete(r.fails, "remove")
	at(2*time.Hour+retryPace, "remove t/netns=one")
	at(5 * time.Hour)
	if got := r.NameOf(number); got != "" {
		t.Errorf("what has gone is called %q", got)
	}
	if got := r.Of(inNetns("one")); got != number+1 {
		t.Errorf("it comes back as %d, want a number that no view has had", got)
	}
	r.addMade(t.Context(), time.Now())
	r.mustHaveCalled("add 3 t/netns=one of t.yaml")
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
	r.mustHaveCalled("remove t/netns=one")
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
			if got := r.NameOf(number); got != "t/netns=one" {
				t.Errorf("it is called %q", got)
			}
		})
	}
}

func TestARefusedViewOfATemplateLeavesTheOthersThere(t *testing.T) {
	r := newRig(t, byName)
	r.fails["load t/netns=bad"] = errors.New("no such file")
	r.Of(inNetns("bad"))
	r.Of(inNetns("one"))
	now := time.Now()
	r.addMade(t.Context(), now)
	r.mustHaveCalled("add 3 t/netns=one of t.yaml", "refused: view t/netns=bad: no such file")
	// It retries, later each time, and says so once.
	r.addMade(t.Context(), now)
	r.mustHaveCalled()
	r.addMade(t.Context(), now.Add(2*retryPace))
	r.mustHaveCalled()
	delete(r.fails, "load t/netns=bad")
	r.addMade(t.Context(), now.Add(retryPace))
	r.mustHaveCalled()
	r.addMade(t.Context(), now.Add(time.Hour))
	r.mustHaveCalled("add 2 t/netns=bad of t.yaml", "took")
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

// FILE may have other values in for_each: what is called alike is another's, and has another number from the first moment on.
func TestAViewHasNotTheNumberOfAnothersConfiguration(t *testing.T) {
	template := func(forEach string) string {
		return `views: [{name: t, config: t.yaml, select: [{namespace: "*"}], for_each: [` + forEach + `], node: {id: "{` + strings.ReplaceAll(forEach, ", ", "}~{") + `}"}}]`
	}
	ab, ba := workload.Facts{Namespace: "a", Pod: "b"}, workload.Facts{Namespace: "b", Pod: "a"}
	for _, tt := range []struct{ before, now string }{{"namespace", "pod"}, {"namespace, pod", "pod, namespace"}} {
		t.Run(tt.before+" and "+tt.now, func(t *testing.T) {
			r := newRig(t, two)
			r.cfg.Served.Pods = true
			r.facts = []workload.Facts{ab, ba}
			r.reload(template(tt.before))
			sees := r.Of(ab)
			r.facts = []workload.Facts{ba}
			r.onAdd = func() {
				if r.Of(ab) != sees {
					t.Error("a workload sees another view before the file is in force")
				}
			}
			r.reload(template(tt.now))
			if got := r.Of(ba); got == sees {
				t.Errorf("both have number %d", got)
			}
		})
	}
}

// A configuration that is active has its view, or is removed: also where the view was to have another one, or had come anew while the first could not be removed.
func TestNoConfigurationStaysWithoutItsView(t *testing.T) {
	tests := []struct {
		name string
		do   func(r *rig, now time.Time)
	}{
		{"another one does not come", func(r *rig, now time.Time) {
			r.reload(strings.Replace(byName, `id: "{netns}"`, `id: "x-{netns}"`, 1))
			r.Of(inNetns("one"))
			r.addMade(r.t.Context(), now)
		}},
		{"it cannot be removed", func(r *rig, now time.Time) {
			r.fails["remove"] = errors.New("no room")
			r.onRemove = func() { r.Of(inNetns("one")) }
			r.removeDeparted(now)
			r.removeDeparted(now.Add(linger))
			r.onRemove = func() {}
			delete(r.fails, "remove")
			r.addMade(r.t.Context(), now)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, byName)
			r.Of(inNetns("one"))
			r.Begin(t.Context())
			r.fails["load t/netns=one"] = errors.New("no such file")
			now := time.Now()
			tt.do(r, now)
			r.calls = nil
			r.removeDeparted(now.Add(time.Hour))
			r.removeDeparted(now.Add(2 * time.Hour))
			if !slices.Contains(r.calls, "remove t/netns=one") {
				t.Errorf("done %q, want it removed", r.calls)
			}
			r.calls = nil
			r.removeDeparted(now.Add(3 * time.Hour))
			r.mustHaveCalled()
		})
	}
}

// What is shown to be wrong is wrong now.
func TestTheRowOfTheFileSaysWhatIsWrong(t *testing.T) {
	r := newRig(t, byName)
	now := time.Now()
	r.fails["load t/netns=bad"] = errors.New("no such file")
	r.Of(inNetns("bad"))
	r.addMade(t.Context(), now)
	r.mustHaveCalled("refused: view t/netns=bad: no such file")
	r.reload("views: 7")
	if len(r.calls) != 1 || !strings.Contains(r.calls[0], "want a list") {
		t.Errorf("done %q, want the file refused", r.calls)
	}
	r.calls = nil
	r.reload(byName)
	r.mustHaveCalled("took", "choose", "refused: view t/netns=bad: no such file")
	r.removeDeparted(now)
	r.removeDeparted(now.Add(linger))
	r.mustHaveCalled("took")
}

// A tenant's view that is refused keeps no change of the file out.
func TestARefusedViewOfATemplateRefusesNoFile(t *testing.T) {
	for _, fails := range []string{"load t/netns=bad", "add t/netns=bad"} {
		t.Run(fails, func(t *testing.T) {
			r := newRig(t, byName)
			r.facts = []workload.Facts{inNetns("bad")}
			r.fails[fails] = errors.New("no room")
			r.reload(byName + view("green"))
			if r.calls[len(r.calls)-1] != "choose" {
				t.Errorf("done %q, want the file in force", r.calls)
			}
			r.mustSee("green", "green")
			if _, is := r.there["green"]; !is {
				t.Error("the view of the file is not there")
			}
		})
	}
}

func TestAReloadKeepsTheBoundOfViewsOfTemplates(t *testing.T) {
	r := newRig(t, two)
	for i := range maxMade + 5 {
		r.facts = append(r.facts, inNetns(fmt.Sprintf("%d", i)))
	}
	r.reload(byName)
	added := 0
	for _, call := range r.calls {
		if strings.HasPrefix(call, "add ") {
			added++
		}
	}
	if added != maxMade {
		t.Errorf("%d views were added, want %d", added, maxMade)
	}
}

// A file that is refused is tried again for as long as it is there, and workloads come and go meanwhile: nothing is left of what they would have seen.
func TestARefusedFileKeepsNoNumbersOfItsTemplates(t *testing.T) {
	r := newRig(t, two)
	r.fails["add"] = errors.New("no room")
	r.write(byName + view("green"))
	for i := range 100 {
		r.facts = []workload.Facts{inNetns(fmt.Sprintf("%d", i))}
		r.reread(t.Context(), true)
	}
	// Those of the file: they keep theirs.
	if got := []int{len(r.made.numberOf), len(r.made.names)}; got[0] != 3 || got[1] != 3 {
		t.Errorf("%d views have numbers, %d numbers have names; want 3 each: blue, red and green", got[0], got[1])
	}
	delete(r.fails, "add")
	r.calls = nil
	r.reread(t.Context(), true)
	r.mustHaveCalled("add 3 green of green.yaml", "add 104 t/netns=99 of t.yaml", "await", "took", "choose")
	if got := r.NameOf(r.Of(inNetns("99"))); got != "t/netns=99" {
		t.Errorf("the workload sees %q", got)
	}
}

// Each attempt to add views waits for what they read.
func TestOneRefusedViewTakesFewAttempts(t *testing.T) {
	r := newRig(t, byName)
	for i := range 1000 {
		r.Of(inNetns(fmt.Sprintf("%03d", i)))
	}
	r.fails["add t/netns=500"] = errors.New("no room")
	adds := 0
	r.onAdd = func() { adds++ }
	now := time.Now()
	for range 5 {
		r.addMade(t.Context(), now)
		now = now.Add(time.Hour)
	}
	if adds > 5*mostParts {
		t.Errorf("%d attempts", adds)
	}
	if missing := maxMade; r.made.roomLocked() != missing-999 {
		t.Errorf("there is room for %d, want all but one to be there", r.made.roomLocked())
	}
}

// A view whose control plane says nothing keeps no other one waiting, and no file.
func TestASilentViewKeepsNoOtherWaiting(t *testing.T) {
	r := newRig(t, byName)
	ctx, end := context.WithCancel(t.Context())
	begun, release, other := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	adds := 0
	r.onAdd = func() {
		mu.Lock()
		adds++
		which := adds
		mu.Unlock()
		switch which {
		case 1:
			close(begun)
			<-release
		case 2:
			close(other)
		}
	}
	reload, served := make(chan os.Signal), make(chan struct{})
	go func() { defer close(served); r.Serve(ctx, reload) }()
	r.Of(inNetns("silent"))
	<-begun
	r.Of(inNetns("healthy"))
	<-other
	r.write(byName + view("green"))
	for range 2 {
		reload <- os.Interrupt // the second finds the first done
	}
	r.mustSee("green", "green")
	close(release)
	end()
	<-served
}

// One view of a batch is refused, and another one says nothing: what is neither does not wait for the end of the batch.
func TestAPartOfABatchIsThereBeforeTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, byName)
		r.fails["add t/netns=0"] = errors.New("no room")
		var last <-chan struct{}
		for i := range 8 {
			last = r.made.awaitable(r.Of(inNetns(fmt.Sprint(i))))
		}
		adds := 0
		r.onAdd = func() {
			// Before that are all 8, and each half of them.
			if adds++; adds == 4 {
				r.silent = map[string]bool{"t/netns=1": true}
			}
		}
		ctx, end := context.WithCancel(t.Context())
		served := make(chan struct{})
		go func() { defer close(served); r.Serve(ctx, nil) }()
		select {
		case <-last:
		case <-time.After(time.Hour):
			t.Error("the last view of the batch waits for the first ones")
		}
		end()
		<-served
	})
}

func TestTheStartWaitsForViewsOfTemplatesForSoLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, byName)
		r.silent = map[string]bool{"t/netns=one": true}
		r.Of(inNetns("one"))
		ctx, end := context.WithCancel(t.Context())
		begun := make(chan struct{})
		go func() { defer close(begun); r.Begin(ctx) }()
		select {
		case <-begun:
		case <-time.After(time.Hour):
			t.Error("it waits for a silent view")
			end()
			<-begun
		}
		// It comes all the same, as far as the daemon does not end.
		if len(r.adds) != 1 {
			t.Errorf("%d attempts are under way, want 1", len(r.adds))
		}
		end()
		r.Serve(ctx, nil)
	})
}

// What a file made that is not in force any more is not to come, and waits for no server: its view has the sources of the file that is.
func TestAnAttemptEndsWithTheFileThatMadeIt(t *testing.T) {
	changed := strings.Replace(byName, `id: "{netns}"`, `id: "x-{netns}"`, 1)
	for _, tt := range []struct {
		name, file string
		// ends: the attempt does. Behind it is what is done then.
		ends   bool
		behind []string
	}{
		{"another node", changed, true, []string{"add 2 t/netns=one of t.yaml"}},
		{"another file", strings.Replace(byName, "t.yaml", "u.yaml", 1), true, []string{"add 2 t/netns=one of u.yaml"}},
		{"another view", byName + view("green"), false, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, byName)
				r.silent = map[string]bool{"t/netns=one": true}
				r.Of(inNetns("one"))
				ctx, end := context.WithCancel(t.Context())
				r.Controller.addMade(ctx, time.Now())
				synctest.Wait()
				r.calls, r.facts = nil, []workload.Facts{inNetns("one")}
				r.reload(tt.file)
				r.Of(inNetns("one")) // as ChooseViews does
				synctest.Wait()
				select {
				case one := <-r.outcomes:
					if !tt.ends {
						t.Errorf("the attempt has ended: %v", one.err)
					}
					r.noteAdded(ctx, one)
					r.noteAdded(ctx, <-r.outcomes)
					r.silent, r.calls = nil, nil
					r.addMade(ctx, time.Now())
					r.mustHaveCalled(tt.behind...)
				default:
					if tt.ends {
						t.Error("the attempt goes on")
					}
				}
				end()
				r.Serve(ctx, nil)
			})
		})
	}
}

// What an attempt that ends with its file was to add besides has not failed.
func TestWhatAnEndedAttemptWasToAddIsDueAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := byName + `- {name: s, config: s.yaml, select: [{cgroup: /s}], for_each: [netns], node: {id: "s-{netns}"}}` + "\n"
		r := newRig(t, file)
		r.silent = map[string]bool{"t/netns=one": true}
		r.Of(inNetns("one"))
		r.Of(workload.Facts{Cgroup: "/s", Netns: "/run/netns/two"})
		ctx, end := context.WithCancel(t.Context())
		defer end()
		now := time.Now()
		r.Controller.addMade(ctx, now)
		r.reload(strings.Replace(file, "t.yaml", "u.yaml", 1))
		for len(r.adds) > 0 {
			r.noteAdded(ctx, <-r.outcomes)
		}
		r.silent, r.calls = nil, nil
		r.Of(inNetns("one"))
		r.addMade(ctx, now)
		r.mustHaveCalled("add 3 s/netns=two of s.yaml", "add 2 t/netns=one of u.yaml")
	})
}

// The workload has gone, or sees another view by the file that is in force: nothing asks for the view, and a workload that returns would have the former sources.
func TestWhatTheFileDoesNotMakeIsNotDueWhenItsAttemptHasEnded(t *testing.T) {
	for name, file := range map[string]string{
		"other sources": strings.Replace(byName, "t.yaml", "u.yaml", 1), "no such template": strings.Replace(byName, "name: t,", "name: x,", 1),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, byName)
				r.silent = map[string]bool{"t/netns=one": true}
				r.Of(inNetns("one"))
				ctx, end := context.WithCancel(t.Context())
				defer end()
				now := time.Now()
				r.Controller.addMade(ctx, now)
				synctest.Wait()
				r.reload(file)
				for len(r.adds) > 0 {
					r.noteAdded(ctx, <-r.outcomes)
				}
				r.silent, r.calls = nil, nil
				r.addMade(ctx, now)
				r.mustHaveCalled()
				// The former file makes it again.
				r.reload(byName)
				r.calls = nil
				r.addMade(ctx, now)
				r.mustHaveCalled("add 2 t/netns=one of t.yaml")
			})
		})
	}
}

// The bootstrap of a template is checked with what it makes a view to be.
func TestAViewOfTheFileThatBecomesATemplateIsChecked(t *testing.T) {
	r := newRig(t, "views: [{name: t, config: t.yaml, select: [{cgroup: /t}]}]")
	r.fails["load t/netns=netns"] = errors.New("no such node")
	r.reload(byName)
	r.mustHaveCalled("refused: view t/netns=netns: no such node")
}

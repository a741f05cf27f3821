// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/internal/pod"
)

// viewer chooses views, and notes the facts that it has got.
type viewer struct {
	of  func(f Facts) uint32
	by  Basis
	got []Facts
	// changed are the workloads that were reported to see another view, with that.
	changed []string
}

// viewsOf has the rig's workloads see these views.
func (r *rig) viewsOf(by Basis, of func(f Facts) uint32) *viewer {
	v := &viewer{of: of, by: by}
	r.s.cfg.ViewsBy = func() Basis { return v.by }
	r.s.cfg.ViewChanged = func(list []*Workload) {
		for _, w := range list {
			v.changed = append(v.changed, fmt.Sprintf("%d sees %d", w.ID, w.View()))
		}
	}
	r.s.cfg.ViewOf = func(f Facts) uint32 { v.got = append(v.got, f); return v.of(f) }
	return v
}

func (v *viewer) mustHaveChanged(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, v.changed); diff != "" {
		t.Errorf("reported changes (-want +got):\n%s", diff)
	}
}

func (v *viewer) mustHaveGot(t *testing.T, want ...Facts) {
	t.Helper()
	if diff := cmp.Diff(want, v.got); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
}

// pathOf is a cgroup as the kernel has it: without where it is mounted.
func (r *rig) pathOf(below string) string {
	r.t.Helper()
	mount, err := check.CgroupMount()
	must(r.t, err)
	path, err := filepath.Rel(mount, filepath.Join(r.cgroup, below))
	must(r.t, err)
	return "/" + path
}

// mustSee demands the view of a namespace, in the list and of the workload.
func (r *rig) mustSee(inode uint64, want uint32) {
	r.t.Helper()
	info := r.infoOf(inode)
	if w := r.s.Get(info.ID); info.ID == Host || info.View != want || w != nil && w.View() != want {
		r.t.Errorf("namespace %d sees view %d, want %d", inode, info.View, want)
	}
}

const warningOfView = "a network namespace sees another configuration"

func (r *rig) mustHaveWarned(want int) {
	r.t.Helper()
	if got := strings.Count(r.log.String(), warningOfView); got != want {
		r.t.Errorf("%d warnings of views, want %d:\n%s", got, want, r.log.String())
	}
}

// ofShop gives pods of the Kubernetes namespace shop view 7.
func ofShop(f Facts) uint32 {
	if f.Namespace == "shop" {
		return 7
	}
	return 0
}

// labelled is the pod web with these labels.
func labelled(t *testing.T, pid int, labels map[string]string) pod.Pod {
	t.Helper()
	p := web(pid, noWish)
	var err error
	p.Labels, err = pod.LabelsOf(labels)
	must(t, err)
	return p
}

// ofFront gives pods with the label tier=front view 7.
func ofFront(f Facts) uint32 {
	if tier, _ := f.Labels.Get("tier"); tier == "front" {
		return 7
	}
	return 0
}

func TestWithoutViewsAllWorkloadsSeeTheSharedConfiguration(t *testing.T) {
	r := newRig(t)
	pid, _ := r.startWeb()
	r.s.PodBegins(web(pid, noWish))
	r.mustSee(r.inodeOf(pid), 0)
	r.s.scanAgain()
	r.mustHaveWarned(0)
}

func TestAWorkloadHasItsViewBeforeItIsServed(t *testing.T) {
	r := newRig(t)
	r.viewsOf(Basis{}, func(Facts) uint32 { return 5 })
	var got []uint32
	join := r.s.cfg.Join
	r.s.cfg.Join = func(w *Workload) error { got = append(got, w.View()); return join(w) }
	r.start(0)
	must(t, r.s.Scan())
	if diff := cmp.Diff([]uint32{5}, got); diff != "" {
		t.Errorf("views at Join (-want +got):\n%s", diff)
	}
}

func TestAPodsViewIsChosenByWhatTheRuntimeReports(t *testing.T) {
	r := newRig(t)
	v := r.viewsOf(Basis{}, ofShop)
	pid, _ := r.startWeb()
	r.s.PodBegins(web(pid, noWish))
	r.mustSee(r.inodeOf(pid), 7)
	cgroup := r.pathOf("kubepods/burstable/pod" + webUID + "/" + webContainer)
	v.mustHaveGot(t, Facts{Namespace: "shop", Pod: "web-0", Cgroup: cgroup})
	// What a scan finds changes nothing, and asks for nothing.
	r.s.scanAgain()
	v.mustHaveGot(t, Facts{Namespace: "shop", Pod: "web-0", Cgroup: cgroup})
}

func TestAPodsViewIsChosenByItsLabels(t *testing.T) {
	front := map[string]string{"app": "web", "tier": "front"}
	tests := []struct {
		name   string
		report func(r *rig, pid int)
	}{
		{"pod that begins", func(r *rig, pid int) { r.s.PodBegins(labelled(t, pid, front)) }},
		{"pod that is there when the daemon starts", func(r *rig, pid int) {
			r.s.PodsAre([]pod.Pod{labelled(t, pid, front)})
			must(t, r.s.Scan())
		}},
		{"pod whose process connects", func(r *rig, pid int) {
			r.s.PodsAre([]pod.Pod{labelled(t, pid, front)})
			r.s.admit(event{r.cookieOf(pid), pid, r.s.now()})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			v := r.viewsOf(Basis{}, ofFront)
			pid, _ := r.startWeb()
			tt.report(r, pid)
			r.mustSee(r.inodeOf(pid), 7)
			v.mustHaveGot(t, Facts{Namespace: "shop", Pod: "web-0", Labels: labelled(t, pid, front).Labels, Cgroup: r.pathOf("kubepods/burstable/pod" + webUID + "/" + webContainer)})
			// The runtime forgets the pod: it is what it was.
			r.s.PodEnded(webSandbox)
			r.s.scanAgain()
			r.mustSee(r.inodeOf(pid), 7)
			r.mustHaveWarned(0)
		})
	}
}

func TestOtherLabelsAreOtherFacts(t *testing.T) {
	r := newRig(t)
	v := r.viewsOf(Basis{}, func(Facts) uint32 { return 0 })
	pid, _ := r.startWeb()
	var want []Facts
	for _, tier := range []string{"front", "back"} {
		p := labelled(t, pid, map[string]string{"tier": tier})
		want = append(want, Facts{Namespace: "shop", Pod: "web-0", Labels: p.Labels, Cgroup: r.pathOf("kubepods/burstable/pod" + webUID + "/" + webContainer)})
		for range 2 {
			r.s.PodBegins(p)
		}
	}
	v.mustHaveGot(t, want...)
}

// A namespace that a process of a pod has made is found by that process.
func TestANamespaceThatAPodHasMadeHasThePodsView(t *testing.T) {
	r := newRig(t)
	r.viewsOf(Basis{}, ofFront)
	r.s.PodBegins(labelled(t, 0, map[string]string{"tier": "front"}))
	pid, _ := r.startIn("kubepods/burstable/pod" + webUID + "/" + webContainer + "/kubepods/pod11111111-2222-3333-4444-555555555555/" + webSandbox)
	r.s.admit(event{r.cookieOf(pid), pid, r.s.now()})
	r.mustSee(r.inodeOf(pid), 7)
}

func TestAViewIsChosenByTheCgroupOfTheProcess(t *testing.T) {
	tests := []struct {
		name string
		find func(r *rig, pid int)
	}{
		{"found by a scan", func(r *rig, _ int) { must(r.t, r.s.Scan()) }},
		{"reported by the kernel", func(r *rig, pid int) { r.s.admit(event{r.cookieOf(pid), pid, r.s.now()}) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			cgroup := r.pathOf("tenants/shop")
			v := r.viewsOf(Basis{Cgroup: true}, func(f Facts) uint32 {
				if f.Cgroup == cgroup {
					return 3
				}
				return 0
			})
			pid, _ := r.startIn("tenants/shop")
			tt.find(r, pid)
			r.mustSee(r.inodeOf(pid), 3)
			v.mustHaveGot(t, Facts{Cgroup: cgroup})
		})
	}
}

func TestANamespaceIsNotServedBeforeTheCgroupIsKnownThatChoosesItsView(t *testing.T) {
	r := newRig(t)
	r.viewsOf(Basis{Cgroup: true, Netns: true}, func(Facts) uint32 { return 3 })
	must(t, r.s.Scan())
	pid, _, remove := r.joinByName("blue")
	defer remove()
	inode := r.inodeOf(pid)
	if r.s.joinNamed() {
		t.Error("it is awaited")
	}
	if n := r.s.Counts().Failed; n != 0 {
		t.Errorf("%d failures, want none: it is not tried", n)
	}
	if _, err := r.s.Join(inode); !errors.Is(err, ErrUnknown) {
		t.Errorf("join without a process that is balanced: %v, want %v", err, ErrUnknown)
	}
	r.mustServe()
	// With its first process it joins.
	inside, _ := r.start(pid)
	r.advance(firstRetry)
	r.s.admit(event{r.cookieOf(inside), inside, r.s.now()})
	r.mustSee(inode, 3)
}

func TestAPodIsServedInAdvanceIfAProcessHoldsIt(t *testing.T) {
	tests := []struct {
		name string
		pid  func(pid int) int
		want int
	}{
		{"process that holds it", func(pid int) int { return pid }, 1},
		{"process is not known", func(int) int { return 0 }, 0},
		{"process of another namespace", func(int) int { return os.Getpid() }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			v := r.viewsOf(Basis{Cgroup: true}, func(Facts) uint32 { return 3 })
			must(t, r.s.Scan())
			pid, _ := r.startOutside()
			path, remove := r.name(pid, "web")
			defer remove()
			p := web(tt.pid(pid), noWish)
			p.Netns = path
			r.s.PodBegins(p)
			if len(r.s.list()) != tt.want || len(v.got) != tt.want {
				t.Errorf("%d namespaces are served, by the facts %+v, want %d", len(r.s.list()), v.got, tt.want)
			}
			if n := r.s.Counts().Failed; n != 0 {
				t.Errorf("%d failures, want none", n)
			}
		})
	}
}

func TestAViewIsChosenByTheNameOfTheNetworkNamespace(t *testing.T) {
	tests := []struct {
		name string
		find func(r *rig, pid int)
	}{
		{"joined by its name", func(r *rig, _ int) { r.s.joinNamed() }},
		{"connects before its name is seen", func(r *rig, pid int) { r.s.admit(event{r.cookieOf(pid), pid, r.s.now()}) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			v := r.viewsOf(Basis{Netns: true}, func(f Facts) uint32 {
				if filepath.Base(f.Netns) == "blue" {
					return 4
				}
				return 0
			})
			must(t, r.s.Scan())
			pid, _ := r.startOutside()
			path, remove := r.name(pid, "blue")
			defer remove()
			tt.find(r, pid)
			r.mustSee(r.inodeOf(pid), 4)
			if got := v.got[0].Netns; got != path {
				t.Errorf("the name is %q, want %q", got, path)
			}
		})
	}
}

// A look at names on account of one namespace finds others as well, which are to join in advance as before.
func TestANameThatIsSeenAheadOfItsReportIsJoinedAllTheSame(t *testing.T) {
	r := newRig(t)
	r.viewsOf(Basis{Netns: true}, func(Facts) uint32 { return 4 })
	must(t, r.s.Scan())
	other, _ := r.startOutside()
	_, remove := r.name(other, "other")
	defer remove()
	pid, _ := r.start(0)
	r.s.admit(event{r.cookieOf(pid), pid, r.s.now()})
	r.s.joinNamed()
	r.mustServe(r.cookieOf(pid), r.cookieOf(other))
}

func TestANameThatIsOfAnotherNamespaceByNowChoosesNoView(t *testing.T) {
	r := newRig(t)
	v := r.viewsOf(Basis{}, func(Facts) uint32 { return 0 })
	pid, _ := r.start(0)
	other, _ := r.startOutside()
	path, remove := r.name(other, "blue")
	defer remove()
	inode, err := netns.InodeOf(r.s.finder.namespaceOf(pid))
	must(t, err)
	r.s.paths = map[netns.Inode]string{inode: path}
	r.s.joinProcess(inode, pid)
	v.mustHaveGot(t, Facts{Cgroup: r.pathOf("")})
}

func TestNoViewIsChosenForWhatIsLeftAlone(t *testing.T) {
	r := newRig(t)
	v := r.viewsOf(Basis{}, ofShop)
	pid, _ := r.startWeb()
	inode := r.inodeOf(pid)
	r.s.PodBegins(web(pid, isOut))
	r.s.scanAgain()
	r.mustBeExcluded(inode, "label")
	v.mustHaveGot(t)
	// Its labels change: it has a view then.
	r.s.PodsAre([]pod.Pod{web(pid, noWish)})
	r.mustBe(inode, Served)
	r.mustSee(inode, 7)
	r.mustHaveWarned(0)
}

func TestTheViewIsChosenAnewWhenAWorkloadIsTakenBack(t *testing.T) {
	tests := []struct {
		name  string
		inUse bool
		state State
		calls []string
	}{
		{"released", false, Released, []string{"join 1", "withdraw 1", "leave 1", "forget 1", "join 2"}},
		{"leaving", true, Leaving, []string{"join 1", "withdraw 1", "announce 1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.viewsOf(Basis{}, ofShop)
			pid, _ := r.startWeb()
			inode := r.inodeOf(pid)
			must(t, r.s.Scan())
			r.mustSee(inode, 0)
			r.setInUse(1, tt.inUse)
			r.mustRelease(inode, tt.state)
			// While it is released nothing is chosen.
			r.s.PodsAre([]pod.Pod{web(pid, noWish)})
			r.mustSee(inode, 0)
			r.mustHaveWarned(0)
			announced := r.s.cfg.Announce
			r.s.cfg.Announce = func(w *Workload) error {
				if w.View() != 7 {
					t.Errorf("view %d is announced, want 7", w.View())
				}
				return announced(w)
			}
			r.mustJoin(inode)
			r.mustSee(inode, 7)
			r.mustHaveCalled(tt.calls...)
			r.s.scanAgain()
			r.mustHaveWarned(0)
		})
	}
}

func TestAViewIsChosenAnewWhenItsPodIsKnownLate(t *testing.T) {
	tests := []struct {
		name   string
		report func(r *rig, pid int)
	}{
		{"pod that begins", func(r *rig, pid int) { r.s.PodBegins(web(pid, noWish)) }},
		{"pods that are there", func(r *rig, pid int) { r.s.PodsAre([]pod.Pod{web(pid, noWish)}) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			v := r.viewsOf(Basis{}, ofShop)
			pid, _ := r.startWeb()
			must(t, r.s.Scan())
			r.mustSee(r.inodeOf(pid), 0)
			v.mustHaveChanged(t)
			for range 2 {
				tt.report(r, pid)
				r.advance(lookPace)
			}
			r.mustSee(r.inodeOf(pid), 7)
			v.mustHaveChanged(t, "1 sees 7")
			r.mustHaveWarned(0)
			if !strings.Contains(r.log.String(), "view=7 view_before=shared") {
				t.Errorf("no line names the views:\n%s", r.log.String())
			}
		})
	}
}

func TestEachWorkloadWithAnotherViewThanItsOwnIsNamedOnce(t *testing.T) {
	r := newRig(t)
	const many = 2 * maxWarnings
	v := r.viewsOf(Basis{}, func(Facts) uint32 { return 0 })
	for range many {
		r.start(0)
	}
	must(t, r.s.Scan())
	v.of = func(Facts) uint32 { return 9 }
	for _, w := range r.s.list() {
		// All have been known by another cgroup.
		w.facts.Cgroup = "/before"
	}
	for range 2 + many/maxWarnings {
		must(t, r.s.Scan())
		r.advance(lookPace)
	}
	r.mustHaveWarned(many)
}

func TestAWorkloadThatIsTakenBackIsNamedAnew(t *testing.T) {
	r := newRig(t)
	v := r.viewsOf(Basis{Cgroup: true}, func(f Facts) uint32 { return uint32(len(f.Cgroup)) })
	// Before the process, which ends before they are removed.
	r.makeCgroup("a")
	r.makeCgroup("bb")
	pid, _ := r.start(0)
	must(t, r.s.Scan())
	move := func(cgroup string) (view uint32) {
		r.move(pid, cgroup)
		must(t, r.s.Scan())
		return uint32(len(r.pathOf(cgroup)))
	}
	second := move("a")
	r.mustHaveWarned(1)
	if !strings.Contains(r.log.String(), fmt.Sprint("view_now=", second)) || !strings.Contains(r.log.String(), "xlb release") {
		t.Errorf("the line names no view, or no remedy:\n%s", r.log.String())
	}
	r.setInUse(1, true)
	r.mustRelease(r.inodeOf(pid), Leaving)
	r.mustJoin(r.inodeOf(pid))
	r.advance(lookPace)
	move("bb")
	r.mustSee(r.inodeOf(pid), second)
	r.mustHaveWarned(2)
	v.mustHaveChanged(t)
}

// The facts that were not known before a view was chosen complete it, those that have become others do not.
func TestFactsComplete(t *testing.T) {
	known := Facts{Namespace: "shop", Pod: "web-0", Cgroup: "/a", Netns: "/run/netns/blue"}
	tests := []struct {
		name   string
		change func(f *Facts)
		want   bool
	}{
		{"the same", func(*Facts) {}, true},
		{"pod", func(f *Facts) { f.Pod = "web-1" }, true},
		{"namespace", func(f *Facts) { f.Namespace = "bank" }, true},
		{"cgroup", func(f *Facts) { f.Cgroup = "/b" }, false},
		{"name of the network namespace", func(f *Facts) { f.Netns = "/run/netns/red" }, false},
		{"pod and cgroup", func(f *Facts) { f.Pod, f.Cgroup = "web-1", "/b" }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := known
			tt.change(&now)
			if got := now.completes(known); got != tt.want {
				t.Errorf("completes what was known: %v, want %v", got, tt.want)
			}
			if !now.completes(Facts{}) {
				t.Error("does not complete what was not known")
			}
		})
	}
}

func TestViewsAreChosenAnewWhenTheyChange(t *testing.T) {
	r := newRig(t)
	v := r.viewsOf(Basis{}, func(Facts) uint32 { return 0 })
	web0, _ := r.startWeb()
	r.s.PodBegins(web(web0, noWish))
	other, _ := r.start(0)
	released, _ := r.start(0)
	must(t, r.s.Scan())
	r.mustRelease(r.inodeOf(released), Released)
	r.s.ChooseViews()
	v.mustHaveChanged(t)
	v.of = func(f Facts) uint32 {
		if f.Host {
			return 4
		}
		return ofShop(f)
	}
	r.s.ChooseViews()
	v.mustHaveChanged(t, "0 sees 4", "1 sees 7")
	r.mustSee(r.inodeOf(web0), 7)
	r.mustSee(r.inodeOf(other), 0)
	// One that is left alone has its view chosen when it is taken back.
	v.of = func(Facts) uint32 { return 9 }
	r.mustJoin(r.inodeOf(released))
	r.mustSee(r.inodeOf(released), 9)
	// What has been warned of before is settled.
	v.changed = nil
	r.s.ChooseViews()
	v.mustHaveChanged(t, "0 sees 9", "1 sees 9", "2 sees 9")
	r.mustHaveWarned(0)
}

// A view may come to be chosen by cgroups while workloads are served of which no process is known.
func TestViewsComeToDependOnCgroups(t *testing.T) {
	r := newRig(t)
	v := r.viewsOf(Basis{}, func(Facts) uint32 { return 0 })
	must(t, r.s.Scan())
	pid, _, remove := r.joinByName("blue")
	defer remove()
	if r.s.joinNamed() {
		t.Fatal("it is awaited")
	}
	r.mustSee(r.inodeOf(pid), 0)
	v.by = Basis{Cgroup: true}
	v.of = func(f Facts) uint32 {
		if f.Cgroup != "" {
			return 5
		}
		return 0
	}
	r.s.ChooseViews()
	v.mustHaveChanged(t)
	r.start(pid)
	must(t, r.s.Scan())
	r.mustSee(r.inodeOf(pid), 5)
	v.mustHaveChanged(t, "1 sees 5")
	r.mustHaveWarned(0)
}

func TestAnotherProcessThanTheOneThatConnectedMayChooseAnotherView(t *testing.T) {
	r := newRig(t)
	agentsCgroup := r.pathOf("agent")
	r.viewsOf(Basis{Cgroup: true}, func(f Facts) uint32 {
		if f.Cgroup == agentsCgroup {
			return 1
		}
		return 2
	})
	pid, _ := r.start(0)
	r.makeCgroup("agent")
	agent, _ := r.start(pid)
	r.move(agent, "agent")
	r.s.admit(event{r.cookieOf(pid), agent, r.s.now()})
	r.mustSee(r.inodeOf(pid), 1)
	must(t, r.s.Scan())
	r.mustSee(r.inodeOf(pid), 1)
	r.mustHaveWarned(1)
	r.mustRelease(r.inodeOf(pid), Released)
	r.mustJoin(r.inodeOf(pid))
	r.mustSee(r.inodeOf(pid), 2)
}

// What a workload was known by may end before it does.
func TestAViewStaysWithoutALineWhenProcessAndNameHaveGone(t *testing.T) {
	r := newRig(t)
	r.viewsOf(Basis{Cgroup: true, Netns: true}, func(f Facts) uint32 {
		if f.Cgroup != "" && f.Netns != "" {
			return 6
		}
		return 0
	})
	must(t, r.s.Scan())
	pid, end := r.start(0)
	_, remove := r.name(pid, "blue")
	must(t, r.s.Scan())
	inode := r.inodeOf(pid)
	r.mustSee(inode, 6)
	r.setInUse(1, true)
	remove()
	end()
	r.s.joinNamed()
	r.s.scanAgain()
	r.mustSee(inode, 6)
	r.mustHaveWarned(0)
}

func TestTheHostsViewIsChosenOnceUnlessItIsLeftAlone(t *testing.T) {
	for _, isLeft := range []bool{false, true} {
		t.Run(fmt.Sprint("left alone: ", isLeft), func(t *testing.T) {
			v := &viewer{}
			own := Own(1)
			s := NewSet(Config{Own: own, NoOwn: isLeft, ViewOf: func(f Facts) uint32 { v.got = append(v.got, f); return 8 }})
			want, facts := uint32(8), []Facts{{Host: true}}
			if isLeft {
				want, facts = 0, nil
			}
			if got := s.List()[0].View; got != want || own.View() != want {
				t.Errorf("the host sees view %d, in the list %d, want %d", own.View(), got, want)
			}
			v.mustHaveGot(t, facts...)
		})
	}
}

func TestAFailureToJoinLeavesNothingOfAViewBehind(t *testing.T) {
	r := newRig(t)
	r.viewsOf(Basis{}, func(Facts) uint32 { return 5 })
	r.setFailure(unix.EMFILE)
	pid, _ := r.start(0)
	must(t, r.s.Scan())
	r.mustServe()
	r.setFailure(nil)
	r.advance(firstRetry)
	must(t, r.s.Scan())
	r.mustSee(r.inodeOf(pid), 5)
}

func TestFactsAndViewsAreThoseOfAllThatAreServed(t *testing.T) {
	r := newRig(t)
	r.viewsOf(Basis{}, ofShop)
	pid, _ := r.startWeb()
	r.s.PodBegins(web(pid, noWish))
	want := []Facts{{Host: true}, {Namespace: "shop", Pod: "web-0", Cgroup: r.pathOf("kubepods/burstable/pod" + webUID + "/" + webContainer)}}
	if diff := cmp.Diff(want, r.s.Facts()); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[uint32]bool{0: true, 7: true}, r.s.Views()); diff != "" {
		t.Errorf("views (-want +got):\n%s", diff)
	}
}

// A runtime keeps the containers of a pod waiting meanwhile. Others may be served: no lock is held.
func TestAPodThatBeginsWaitsForItsView(t *testing.T) {
	r := newRig(t)
	r.viewsOf(Basis{}, ofShop)
	var awaited []uint32
	r.s.cfg.AwaitView = func(view uint32) { awaited = append(awaited, view); r.s.ChooseViews() }
	pid, _ := r.startWeb()
	for range 2 {
		r.s.PodBegins(web(pid, noWish))
	}
	if diff := cmp.Diff([]uint32{7, 7}, awaited); diff != "" {
		t.Errorf("awaited (-want +got):\n%s", diff)
	}
}

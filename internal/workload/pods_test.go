// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/internal/pod"
	"github.com/xlb-project/xlb/test/await"
)

const (
	webUID       = "0f3a51cd-52a4-4b4e-8b5c-6d1d1a1b2c3d"
	webSandbox   = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	webContainer = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// web is a pod of a container runtime, whose labels ask for this.
func web(pid int, wish pod.Wish) pod.Pod {
	return pod.Pod{Sandbox: webSandbox, UID: webUID, Namespace: "shop", Name: "web-0", PID: pid, Wish: wish}
}

var (
	isOut   = pod.Wish{Choice: pod.Out, Label: "istio.io/dataplane-mode: none"}
	isIn    = pod.Wish{Choice: pod.In, Label: "istio.io/dataplane-mode: xlb"}
	noWish  = pod.Wish{}
	webName = pod.Identity{Container: webSandbox, UID: webUID, Namespace: "shop", Name: "web-0"}
)

// startIn makes a process in a new network namespace, in a cgroup below the rig's with that name, as a container runtime names it.
func (r *rig) startIn(name string) (pid int, end func()) {
	r.t.Helper()
	path := filepath.Join(r.cgroup, name)
	must(r.t, os.MkdirAll(path, 0o755))
	dir, err := os.Open(path)
	must(r.t, err)
	r.t.Cleanup(func() { dir.Close() })
	r.t.Cleanup(func() { r.removeCgroups(path) })
	return r.startAs(0, &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd()), Pdeathsig: syscall.SIGKILL})
}

// startNamed makes a process in the cgroup, in the network namespace with that name.
func (r *rig) startNamed(path string) (pid int, end func()) {
	r.t.Helper()
	cmd := exec.Command("nsenter", "--net="+path, "sleep", "1000")
	return r.startCommand(cmd, &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(r.dir.Fd()), Pdeathsig: syscall.SIGKILL})
}

// removeCgroups removes one, and those above it below the rig's.
func (r *rig) removeCgroups(path string) {
	for ; path != r.cgroup; path = filepath.Dir(path) {
		await.Quiet(r.t, func() string {
			if err := unix.Rmdir(path); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTEMPTY) {
				return err.Error()
			}
			return ""
		})
	}
}

func (r *rig) startWeb() (pid int, end func()) {
	return r.startIn("kubepods/burstable/pod" + webUID + "/" + webContainer)
}

// infoOf is what is known of a namespace.
func (r *rig) infoOf(inode uint64) (i Info) {
	for _, i = range r.s.List() {
		if i.Inode == inode {
			return i
		}
	}
	return Info{}
}

func (r *rig) mustBeCalled(inode uint64, want pod.Identity) {
	r.t.Helper()
	if got := r.infoOf(inode).Identity; got != want {
		r.t.Errorf("namespace %d is that of %+v, want %+v", inode, got, want)
	}
}

// mustBeExcluded demands that a namespace is left alone, for that reason.
func (r *rig) mustBeExcluded(inode uint64, why string) {
	r.t.Helper()
	if i := r.infoOf(inode); i.State != Excluded || !strings.Contains(i.Why, why) {
		r.t.Errorf("namespace %d is %q because of %q, want it to be left alone because of %q", inode, i.State, i.Why, why)
	}
}

func TestAWorkloadIsKnownByItsCgroup(t *testing.T) {
	r := newRig(t)
	pid, _ := r.startWeb()
	must(t, r.s.Scan())
	r.mustBeCalled(r.inodeOf(pid), pod.Identity{UID: webUID, Container: webContainer})
	other, _ := r.start(0)
	must(t, r.s.Scan())
	r.mustBeCalled(r.inodeOf(other), pod.Identity{})
}

func TestTheKernelsReportTellsWhichPodItIs(t *testing.T) {
	r := newRig(t)
	pid, _ := r.startWeb()
	r.s.admit(event{r.cookieOf(pid), pid, r.s.now()})
	r.mustBeCalled(r.inodeOf(pid), pod.Identity{UID: webUID, Container: webContainer})
}

func TestAPodIsServedBeforeItsContainersRun(t *testing.T) {
	r := newRig(t)
	pid, end := r.startWeb()
	inode := r.inodeOf(pid)
	r.s.PodBegins(web(pid, noWish))
	r.mustBe(inode, Served)
	r.mustBeCalled(inode, webName)
	r.mustHaveCalled("join 1")
	// Its first process is found as that of any other namespace, and its name stays when the runtime has removed it.
	r.s.scanAgain()
	if i := r.infoOf(inode); i.PID != pid {
		t.Errorf("it is known by process %d, want %d", i.PID, pid)
	}
	r.s.PodEnded(webSandbox)
	r.s.scanAgain()
	r.mustBeCalled(inode, webName)
	end()
	r.s.scanAgain()
	r.mustServe()
	r.mustHaveCalled("join 1", "leave 1")
}

// Some runtimes have no process of a pod beside those of its containers.
func TestAPodIsServedWhileItsOnlyContainerStartsAgain(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(r.names, "web")
	must(t, nameSpace(path))
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	must(t, r.s.Scan())
	begun := web(0, noWish)
	begun.Netns = path
	r.s.PodBegins(begun)
	pid, end := r.startNamed(path)
	r.s.scanAgain()
	inode := r.inodeOf(pid)
	if i := r.infoOf(inode); i.PID != pid {
		t.Fatalf("it is known by process %d, want %d", i.PID, pid)
	}
	end()
	r.advance(advance)
	r.s.scanAgain()
	r.mustBe(inode, Served)
	if r.s.hasUnsettled() {
		t.Error("it is looked for at each look")
	}
	r.s.PodEnded(webSandbox)
	r.s.scanAgain()
	r.mustServe()
}

func TestAPodThatNoBalancedProcessIsInIsLeft(t *testing.T) {
	r := newRig(t)
	pid, _ := r.startOutside()
	r.s.PodBegins(web(pid, noWish))
	r.s.scanAgain()
	r.mustBe(r.inodeOf(pid), Served)
	r.advance(advance)
	r.s.scanAgain()
	r.mustServe()
}

func TestAPodThatHasGoneIsNotServedInAdvance(t *testing.T) {
	r := newRig(t)
	pid, _ := r.startOutside()
	r.s.PodBegins(web(pid, noWish))
	r.s.PodEnded(webSandbox)
	r.s.scanAgain()
	r.mustServe()
}

func TestALabelHasAPodLeftAlone(t *testing.T) {
	r := newRig(t)
	pid, end := r.startWeb()
	cookie, inode := r.cookieOf(pid), r.inodeOf(pid)
	r.s.PodBegins(web(pid, isOut))
	r.mustBeExcluded(inode, "label istio.io/dataplane-mode: none")
	r.mustBeCalled(inode, webName)
	// Neither a connection of it nor a scan has it served.
	if !r.s.admit(event{cookie, pid, r.s.now()}) {
		t.Error("the kernel's report of it is taken up")
	}
	must(t, r.s.Scan())
	must(t, r.s.Scan())
	if r.s.hasUnsettled() {
		t.Error("it is looked for, and its process is there")
	}
	r.mustBeExcluded(inode, "label istio.io/dataplane-mode: none")
	r.mustHaveCalled("exclude 1")
	r.awaitCounts(Counts{Excluded: 1})
	// An operator goes before labels, until the daemon ends.
	r.mustJoin(inode)
	r.s.PodsAre([]pod.Pod{web(pid, isOut)})
	must(t, r.s.Scan())
	r.mustBe(inode, Served)
	r.mustRelease(inode, Released)
	r.mustHaveCalled("exclude 1", "forget 1", "join 2", "withdraw 2", "leave 2")
	end()
	r.s.scanAgain()
	if i := r.infoOf(inode); i.State != "" {
		t.Errorf("a namespace that has ended is %q", i.State)
	}
}

// A name is there before the runtime has reported labels.
func TestALabelGoesBeforeAName(t *testing.T) {
	r := newRig(t)
	pid, _ := r.startWeb()
	inode := r.inodeOf(pid)
	must(t, r.s.Scan())
	r.mustBe(inode, Served)
	r.setInUse(1, true)
	r.s.PodBegins(web(pid, isOut))
	r.mustBe(inode, Leaving)
	r.advance(inFlight)
	r.s.closeReleased()
	r.mustBe(inode, Leaving)
	r.setInUse(1, false)
	r.s.closeReleased()
	r.mustBeExcluded(inode, "label")
	r.mustHaveCalled("join 1", "withdraw 1", "leave 1")
}

func TestPodsThatThereAreAreNamedAndTheirLabelsObeyed(t *testing.T) {
	r := newRig(t)
	pid, _ := r.startWeb()
	inode := r.inodeOf(pid)
	r.s.PodsAre([]pod.Pod{web(pid, isOut)})
	must(t, r.s.Scan())
	r.mustBeExcluded(inode, "label")
	r.mustBeCalled(inode, webName)
	r.mustHaveCalled("exclude 1")
}

// The cgroup of its process says nothing of it where the runtime is itself below a service, or the kubelet makes no cgroups for pods.
func TestAPodThatIsFoundAfterItsReportIsKnownByItsNamespace(t *testing.T) {
	tests := []struct {
		name       string
		isServed   bool
		wish       pod.Wish
		isExcluded bool
	}{
		{"found later", false, noWish, false},
		{"found before", true, noWish, false},
		{"found later, left alone", false, isOut, true},
		{"found before, left alone", true, isOut, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			pid, _ := r.start(0)
			inode := r.inodeOf(pid)
			if tt.isServed {
				must(t, r.s.Scan())
			}
			r.s.PodsAre([]pod.Pod{web(pid, tt.wish)})
			must(t, r.s.Scan())
			r.advance(inFlight)
			r.s.closeReleased()
			r.mustBeCalled(inode, webName)
			if tt.isExcluded {
				r.mustBeExcluded(inode, "label")
			}
			// An operator's word changes nothing about that.
			r.mustJoin(inode)
			r.mustBeCalled(inode, webName)
		})
	}
}

// Another namespace may have the inode of one that has ended.
func TestANamespaceThatIsNoneOfThePodIsNotKnownByIt(t *testing.T) {
	r := newRig(t)
	other, _ := r.start(0)
	r.s.PodsAre([]pod.Pod{web(other, noWish)})
	pid, _ := r.start(0)
	inode, err := netns.InodeOf(r.s.finder.namespaceOf(pid))
	must(t, err)
	r.s.pods.note(webSandbox, inode)
	must(t, r.s.Scan())
	r.mustBeCalled(r.inodeOf(pid), pod.Identity{})
}

func TestAReleasedPodStaysReleasedWhateverItsLabelsSay(t *testing.T) {
	r := newRig(t)
	pid, _ := r.startWeb()
	inode := r.inodeOf(pid)
	must(t, r.s.Scan())
	r.mustRelease(inode, Released)
	for _, wish := range []pod.Wish{isIn, isOut} {
		r.s.PodsAre([]pod.Pod{web(pid, wish)})
		r.mustBe(inode, Released)
	}
	r.mustBeCalled(inode, webName)
}

func TestOnlyPodsThatAskForItAreServedWhereLabelsDecide(t *testing.T) {
	r := newRig(t)
	r.s.cfg.Labelled = true
	pid, _ := r.startWeb()
	inode := r.inodeOf(pid)
	// The runtime has not reported it yet, or has no labels.
	must(t, r.s.Scan())
	r.mustBeExcluded(inode, "no pod is known that asks for it by a label")
	r.s.PodsAre([]pod.Pod{web(pid, noWish)})
	r.mustBeExcluded(inode, "no label asks for it")
	r.s.PodsAre([]pod.Pod{web(pid, isIn)})
	r.mustBe(inode, Served)
	r.mustHaveCalled("exclude 1", "forget 1", "join 2")
	// Without a pod there is no label, and an operator may say so all the same.
	other, _ := r.start(0)
	must(t, r.s.Scan())
	r.mustBeExcluded(r.inodeOf(other), "no pod is known")
	r.mustJoin(r.inodeOf(other))
}

func TestANameJoinsNothingWhereLabelsDecide(t *testing.T) {
	r := newRig(t)
	r.s.cfg.Labelled = true
	must(t, r.s.Scan())
	must(t, nameSpace(filepath.Join(r.names, "web")))
	t.Cleanup(func() { must(t, unix.Unmount(filepath.Join(r.names, "web"), unix.MNT_DETACH)) })
	r.s.joinNamed()
	r.mustServe()
	r.s.PodBegins(pod.Pod{Sandbox: webSandbox, UID: webUID, Namespace: "shop", Name: "web-0", Netns: filepath.Join(r.names, "web"), Wish: isIn})
	if list := r.s.list(); len(list) != 0 {
		// The loopback interface of such a namespace is down, and the rig's Join does not mind.
		r.mustBeCalled(list[0].inode.Number, webName)
		return
	}
	t.Error("the pod is not served")
}

// What a pod's process is in by its cgroup is not another pod's.
func TestAProcessOfAnotherPodNamesNoNamespace(t *testing.T) {
	r := newRig(t)
	pid, _ := r.startWeb()
	other := web(pid, noWish)
	other.UID = "11111111-2222-3333-4444-555555555555"
	r.s.PodBegins(other)
	r.mustServe()
}

func TestAPodOfTheHostsNetworkIsNoWorkload(t *testing.T) {
	r := newRig(t)
	r.s.PodBegins(web(os.Getpid(), isOut))
	r.s.PodBegins(pod.Pod{Sandbox: webSandbox})
	r.mustServe()
	r.mustHaveCalled()
}

func TestTheNewestSandboxOfAPodIsItsOwn(t *testing.T) {
	p := newPods()
	p.add(pod.Pod{Sandbox: "1", UID: webUID, Name: "old"})
	p.add(pod.Pod{Sandbox: "2", UID: webUID, Name: "new"})
	p.add(pod.Pod{Sandbox: "3"})
	p.note("1", netns.Inode{Number: 7})
	p.note("2", netns.Inode{Number: 7})
	mustFind := func(container pod.Identity, want string) {
		t.Helper()
		if got, ok := p.of(container); got.Sandbox != want || ok != (want != "") {
			t.Errorf("%+v is of sandbox %q, %t, want %q", container, got.Sandbox, ok, want)
		}
	}
	mustFind(pod.Identity{UID: webUID}, "2")
	mustFind(pod.Identity{Container: "3"}, "3")
	mustFind(pod.Identity{Container: "4"}, "")
	mustFind(pod.Identity{}, "")
	p.remove("2")
	mustFind(pod.Identity{UID: webUID}, "1")
	mustFind(pod.Identity{UID: "another", Container: "1"}, "")
	p.remove("1")
	p.remove("1")
	mustFind(pod.Identity{UID: webUID}, "")
	if n := len(p.sandboxes) + len(p.inodes) + len(p.byInode); n != 0 {
		t.Errorf("%d entries are remembered", n)
	}
}

// move puts a process into a cgroup below the rig's that has been made.
func (r *rig) move(pid int, name string) {
	r.t.Helper()
	must(r.t, os.WriteFile(filepath.Join(r.cgroup, name, "cgroup.procs"), []byte(fmt.Sprint(pid)), 0o600))
}

// makeCgroup makes one below the rig's, before the processes that it is to have.
func (r *rig) makeCgroup(name string) {
	r.t.Helper()
	path := filepath.Join(r.cgroup, name)
	must(r.t, os.MkdirAll(path, 0o755))
	r.t.Cleanup(func() { r.removeCgroups(path) })
}

// lookOften does what Run does within some looks.
func (r *rig) lookOften() {
	for range 5 {
		r.advance(lookPace)
		r.s.closeReleased()
		if r.s.hasUnsettled() {
			r.s.scanAgain()
		}
	}
}

// The runtime may report a process of its own for a pod, which is in the host's network.
func TestThePodsFileCountsWhereItsProcessIsTheHosts(t *testing.T) {
	r := newRig(t)
	pid, _ := r.startWeb()
	p := web(os.Getpid(), isOut)
	p.Netns = r.s.finder.namespaceOf(pid)
	r.s.PodBegins(p)
	r.mustBeExcluded(r.inodeOf(pid), "label")
}

// The host's network is no pod's, also where the daemon has another one.
func TestAPodOfTheHostsNetworkIsNotTheHost(t *testing.T) {
	r := newRig(t)
	pid, _ := r.startWeb()
	itsProc := fmt.Sprintf("/proc/%d", pid)
	proc := t.TempDir()
	for name, target := range map[string]string{"self": "/proc/self", "1": itsProc, fmt.Sprint(pid): itsProc} {
		must(t, os.Symlink(target, filepath.Join(proc, name)))
	}
	r.s.finder.proc = proc
	r.s.PodBegins(web(pid, isOut))
	r.s.PodsAre([]pod.Pod{web(pid, isOut)})
	must(t, r.s.Scan())
	r.mustBe(r.inodeOf(pid), Served)
	r.mustBeCalled(r.inodeOf(pid), pod.Identity{})
}

// Neither of these is known by its process's cgroup when the runtime is connected to.
func TestPodsThatThereAreAreKnownByTheirNamespaces(t *testing.T) {
	for _, isLabelled := range []bool{false, true} {
		t.Run(fmt.Sprint("labelled ", isLabelled), func(t *testing.T) {
			r := newRig(t)
			r.s.cfg.Labelled = isLabelled
			out, _ := r.start(0)
			in, _ := r.start(0)
			asks := web(in, isIn)
			asks.Sandbox, asks.UID = webContainer, "11111111-2222-3333-4444-555555555555"
			list := []pod.Pod{web(out, isOut), asks}
			r.s.PodsAre(list)
			for range 2 {
				must(t, r.s.Scan())
				r.mustBeExcluded(r.inodeOf(out), "label")
				r.mustBe(r.inodeOf(in), Served)
				r.s.PodsAre(list)
			}
		})
	}
}

func TestALabelIsObeyedThatComesBetweenANameAndAProcess(t *testing.T) {
	r := newRig(t)
	must(t, r.s.Scan())
	pid, path, remove := r.joinByName("web")
	defer remove()
	r.mustBe(r.inodeOf(pid), Served)
	p := web(0, isOut)
	p.Netns = path
	r.s.PodsAre([]pod.Pod{p})
	r.lookOften()
	r.mustBeExcluded(r.inodeOf(pid), "label")
	r.mustBeCalled(r.inodeOf(pid), webName)
}

// containerd lists those that have stopped as well, in any order. Labels may have been changed since.
func TestASandboxThatHasStoppedIsNotItsPodsNewest(t *testing.T) {
	r := newRig(t)
	pid, _ := r.startWeb()
	stopped := web(0, noWish)
	stopped.Sandbox = webContainer
	for _, list := range [][]pod.Pod{{web(pid, isOut), stopped}, {stopped, web(pid, isOut)}} {
		r.s.PodsAre(list)
		must(t, r.s.Scan())
		r.mustBeExcluded(r.inodeOf(pid), "label")
		r.mustBeCalled(r.inodeOf(pid), webName)
	}
}

// An operator's process, say, is the first that is seen in a pod's namespace.
func TestANamespaceIsKnownByALaterProcess(t *testing.T) {
	tests := []struct {
		name          string
		isLabelled    bool
		wish          pod.Wish
		before, after State
	}{
		{"opts out", false, isOut, Served, Excluded},
		{"opts in", true, isIn, Excluded, Served},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.s.cfg.Labelled = tt.isLabelled
			r.s.PodsAre([]pod.Pod{web(0, tt.wish)})
			const container = "kubepods/burstable/pod" + webUID + "/" + webContainer
			r.makeCgroup(container)
			first, end := r.start(0)
			inode := r.inodeOf(first)
			_, remove := r.name(first, "web")
			defer remove()
			r.s.lookAtNames()
			r.s.admit(event{r.cookieOf(first), first, r.s.now()})
			r.mustBe(inode, tt.before)
			r.setInUse(1, true)
			second, _ := r.start(first)
			r.move(second, container)
			end()
			r.lookOften()
			// Its connections may be open for as long as they like.
			r.setInUse(1, false)
			r.s.closeReleased()
			r.mustBe(inode, tt.after)
		})
	}
}

func TestTheOldestProcessNamesANamespaceRatherThanTheThreadThatConnects(t *testing.T) {
	agent := web(0, isOut)
	agent.UID, agent.Name = "11111111-2222-3333-4444-555555555555", "agent"
	for _, wish := range []pod.Wish{noWish, isOut} {
		t.Run("an agent with the label "+wish.Label, func(t *testing.T) {
			r := newRig(t)
			agent.Wish = wish
			r.s.PodsAre([]pod.Pod{agent})
			pid, _ := r.startWeb()
			thread, end := r.startAgent(pid, agent)
			r.s.admit(event{r.cookieOf(pid), thread, r.s.now()})
			end()
			must(t, r.s.Scan())
			must(t, r.s.Scan())
			r.mustBe(r.inodeOf(pid), Served)
			r.mustBeCalled(r.inodeOf(pid), pod.Identity{UID: webUID, Container: webContainer})
		})
	}
}

// startAgent makes a process of another pod in the namespace of a process.
func (r *rig) startAgent(of int, agent pod.Pod) (pid int, end func()) {
	r.t.Helper()
	container := "other/kubepods/burstable/pod" + agent.UID + "/" + webSandbox
	r.makeCgroup(container)
	pid, end = r.start(of)
	r.move(pid, container)
	return pid, end
}

// The process that has entered the namespace may live on, and the oldest one be in no container.
func TestAnAgentNamesNoNamespaceThatItHasEntered(t *testing.T) {
	agent := web(0, isOut)
	agent.UID, agent.Name = "11111111-2222-3333-4444-555555555555", "agent"
	tests := []struct {
		name                   string
		isContainer, isChanged bool
		isReported             bool
		want                   pod.Identity
	}{
		{"container", true, false, false, pod.Identity{UID: webUID, Container: webContainer}},
		{"no container", false, false, false, pod.Identity{}},
		{"no container, reported by the runtime", false, false, true, webName},
		{"container, joined by an operator", true, true, false, pod.Identity{UID: webUID, Container: webContainer}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			start := func() (int, func()) { return r.start(0) }
			if tt.isContainer {
				start = r.startWeb
			}
			pid, _ := start()
			list := []pod.Pod{agent}
			if tt.isReported {
				list[0].Sandbox = webContainer
				list = append(list, web(pid, noWish))
			}
			r.s.PodsAre(list)
			thread, _ := r.startAgent(pid, agent)
			r.s.admit(event{r.cookieOf(pid), thread, r.s.now()})
			if tt.isChanged {
				r.mustJoin(r.inodeOf(pid))
			}
			r.lookOften()
			r.mustBe(r.inodeOf(pid), Served)
			r.mustBeCalled(r.inodeOf(pid), tt.want)
			if r.s.hasUnsettled() {
				t.Error("it is looked for at each look")
			}
		})
	}
}

func TestAPodThatJoinsAgainKeepsItsName(t *testing.T) {
	r := newRig(t)
	pid, _ := r.start(0)
	inode := r.inodeOf(pid)
	r.s.PodBegins(web(pid, isOut))
	r.mustJoin(inode)
	r.mustBe(inode, Served)
	r.mustBeCalled(inode, webName)
	r.mustRelease(inode, Released)
	r.mustJoin(inode)
	r.mustBeCalled(inode, webName)
}

func TestAPodWithoutAProcessJoinsAsItsLabelsChange(t *testing.T) {
	r := newRig(t)
	r.s.cfg.Labelled = true
	pid, _ := r.startOutside()
	path, remove := r.name(pid, "web")
	defer remove()
	must(t, r.s.Scan())
	p := web(0, noWish)
	p.Netns = path
	r.s.PodBegins(p)
	r.mustBeExcluded(r.inodeOf(pid), "no label asks for it")
	p.Wish = isIn
	r.s.PodBegins(p)
	r.mustBe(r.inodeOf(pid), Served)
	r.mustBeCalled(r.inodeOf(pid), webName)
}

// To look whether a namespace has its name still is to enter it.
func TestAPodThatIsLeftAloneIsFollowedByItsProcess(t *testing.T) {
	r := newRig(t)
	must(t, r.s.Scan())
	pid, end := r.startOutside()
	inode := r.inodeOf(pid)
	path, remove := r.name(pid, "web")
	defer remove()
	r.s.joinNamed()
	p := web(pid, isOut)
	p.Netns = path
	r.s.PodBegins(p)
	r.lookOften()
	r.mustBeExcluded(inode, "label")
	if i := r.infoOf(inode); i.PID != pid {
		t.Errorf("it is known by process %d, want %d", i.PID, pid)
	}
	end()
	r.lookOften()
	r.mustBeExcluded(inode, "label")
}

// The runtime's connection may come and go: what is known of a pod stays, also where nothing but the runtime leads to its namespace.
func TestAPodThatIsReportedAgainStaysAsItIs(t *testing.T) {
	r := newRig(t)
	pid, _ := r.startOutside()
	inode := r.inodeOf(pid)
	for range 2 {
		r.s.PodBegins(web(pid, isOut))
		r.s.PodsAre([]pod.Pod{web(pid, isOut)})
		r.mustBeExcluded(inode, "label")
	}
	r.mustHaveCalled("exclude 1")
}

// The kernel programs outlive the Set, and refuse with --when-down=fail what they do not know.
func TestWhatIsLeftAloneStaysSoWhenTheDaemonEnds(t *testing.T) {
	r := newRig(t)
	excluded, _ := r.startWeb()
	r.s.PodBegins(web(excluded, isOut))
	released, _ := r.start(0)
	leaving, _ := r.start(0)
	must(t, r.s.Scan())
	r.mustRelease(r.inodeOf(released), Released)
	r.setInUse(3, true)
	r.mustRelease(r.inodeOf(leaving), Leaving)
	r.s.Close()
	r.s.Close()
	r.mustHaveCalled("exclude 1", "join 2", "join 3", "withdraw 2", "leave 2", "withdraw 3", "leave 3")
	if n := r.s.followed.Load(); n != 0 {
		t.Errorf("%d namespaces are followed, want none", n)
	}
}

// SPDX-License-Identifier: Apache-2.0

package containerd

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/xlb-project/xlb/test/e2e/harness"
)

// Containerd reports a pod to the daemon before a container of it runs: what the first instruction of one sends is balanced.
func TestTheFirstConnectionOfAPodIsBalanced(t *testing.T) {
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		n := newNode(t)
		s := n.service(t)
		const pods = 20
		t.Run("containerd reports pods", func(t *testing.T) {
			b := n.balance(t, mode, s, byNRI)
			n.churn(t, pods, func(p *pod) { p.requireBalanced(t, s.address) })
			if got := unbalanced(t, b); got != 0 {
				t.Errorf("connections that went unbalanced: got %v, want 0", got)
			}
		})
		// With neither that nor names of network namespaces a pod is served from a first connection on, or when the daemon happens to look: so this test can fail.
		t.Run("no runtime reports pods", func(t *testing.T) {
			b := n.balance(t, mode, s, "--nri=off")
			said := map[string]int{}
			n.churn(t, pods, func(p *pod) { said[strings.Join(p.ask(t, s.address, 1), "\n")]++ })
			if got := unbalanced(t, b); got != float64(said[refused]) || got == 0 {
				t.Errorf("connections that went unbalanced: counted %v, want as many as pods say, and some: %v", got, said)
			}
		})
	})
}

// churn has pods come and go, one by one, and says how long containerd takes to make them.
func (n *node) churn(t *testing.T, pods int, use func(*pod)) {
	t.Helper()
	var took []time.Duration
	for range pods {
		p := n.pod(t, nil)
		took = append(took, p.took)
		use(p)
		p.remove(t)
	}
	slices.Sort(took)
	t.Logf("RunPodSandbox of %d pods: %v (least), %v (median), %v (most)", pods, took[0], took[pods/2], took[pods-1])
}

// Containerd reports pods one by one, however many it makes at once.
func TestTheFirstConnectionsOfPodsThatBeginAtOnceAreBalanced(t *testing.T) {
	n := newNode(t)
	s := n.service(t)
	b := n.balance(t, harness.Modes(t)[0], s, byNRI)
	const pods, requests = 12, 4
	begun := make([]*pod, pods)
	asking, errs := make([]*container, pods), make([]error, pods)
	var beginning sync.WaitGroup
	for i := range pods {
		p := n.prepare(nil)
		begun[i] = p
		beginning.Go(func() {
			if errs[i] = p.begin(t.Context()); errs[i] == nil {
				asking[i], errs[i] = p.startAsking(t.Context(), s.address, requests)
			}
		})
	}
	beginning.Wait()
	for i, p := range begun {
		if errs[i] != nil {
			t.Fatalf("%s: %v", p.name, errs[i])
		}
		p.requireAnswers(t, asking[i].output(t), requests)
	}
	if n := unbalanced(t, b); n != 0 {
		t.Errorf("connections that went unbalanced: got %v, want 0", n)
	}
}

// A pod has its name wherever workloads are shown, for as long as it is there, and can be called by it.
func TestPodsHaveTheirNames(t *testing.T) {
	n := newNode(t)
	s := n.service(t)
	b := n.balance(t, harness.Modes(t)[0], s, byNRI)
	p := n.pod(t, nil)
	n.requireRow(t, b, p, "served", "")
	labels := []string{`state="served"`, `runtime="containerd"`}
	for name, value := range map[string]string{"pod_namespace": namespace, "pod": p.name, "pod_uid": p.uid, "container": p.sandbox} {
		labels = append(labels, fmt.Sprintf("%s=%q", name, value))
	}
	if info(t, b, labels...) == "" {
		t.Errorf("/metrics has no xlb_workload_info with %v", labels)
	}
	called := []string{"--pod", namespace + "/" + p.name, "--admin", b.Admin.String()}
	n.Run(t, append([]string{harness.Binary(t), "release"}, called...)...).Output(t, patience)
	p.requireUnbalanced(t, s.address)
	n.Run(t, append([]string{harness.Binary(t), "join"}, called...)...).Output(t, patience)
	p.requireBalanced(t, s.address)
	p.remove(t)
	harness.Eventually(t, patience, "a pod that has gone is not listed", func() bool { return !n.isListed(t, b, p) && info(t, b, labels[2:]...) == "" })
}

// Without containerd's word a pod is known by the cgroups that containerd makes.
func TestPodsAreKnownByTheirCgroups(t *testing.T) {
	n := newNode(t)
	s := n.service(t)
	p := n.pod(t, nil)
	b := n.balance(t, harness.Modes(t)[0], s, "--nri=off")
	n.requireListed(t, b, row{State: "served", Container: p.sandbox, UID: p.uid})
	p.requireBalanced(t, s.address)
}

// A pod with the host's network has none of its own: its labels say nothing of the host's processes, and it ends without them.
func TestLabelsOfAPodWithTheHostsNetworkLeaveTheHostAlone(t *testing.T) {
	n := newNode(t)
	s := n.service(t)
	b := n.balance(t, harness.Modes(t)[0], s, byNRI)
	p := n.prepare(map[string]string{meshLabel: "none"})
	p.network, p.config.Hostname = cri.NamespaceMode_NODE, ""
	p.config.Linux.SecurityContext.NamespaceOptions = p.namespaces()
	if err := p.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	requireHost := func() {
		t.Helper()
		n.requireListed(t, b, row{State: "served"})
		if n.isListed(t, b, p) {
			t.Errorf("%s is listed, which has no network namespace of its own", p.name)
		}
	}
	requireHost()
	for range 2 {
		if got := p.ask(t, s.address, 1); len(got) != 1 || !strings.Contains(got[0], " from ") {
			t.Errorf("a request of a pod with the host's network: got %q, want an answer of the service: the host is balanced", got)
		}
	}
	p.remove(t)
	requireHost()
}

// Labels that say whether a pod is balanced: those of meshes, and XLB's own.
const (
	meshLabel = "istio.io/dataplane-mode"
	ownLabel  = "xlb-project.github.io/balance"
)

func TestLabelsSayWhetherAPodIsBalanced(t *testing.T) {
	type labels = map[string]string
	for _, daemon := range []struct {
		name string
		pods []podWithLabels
	}{
		{"all", []podWithLabels{
			{"no label", nil, ""},
			{"mesh's label: none", labels{meshLabel: "none"}, "label " + meshLabel + ": none"},
			{"mesh's label: another", labels{meshLabel: "ambient"}, ""},
			{"own label: no", labels{ownLabel: "false"}, "label " + ownLabel + ": false"},
			{"own label before the mesh's: yes", labels{ownLabel: "true", meshLabel: "none"}, ""},
			{"own label before the mesh's: no", labels{ownLabel: "false", meshLabel: "xlb"}, "label " + ownLabel + ": false"},
		}},
		{"labelled", []podWithLabels{
			{"no label", nil, unasked},
			{"mesh's label: xlb", labels{meshLabel: "xlb"}, ""},
			{"mesh's label: none", labels{meshLabel: "none"}, "label " + meshLabel + ": none"},
			{"mesh's label: another", labels{meshLabel: "ambient"}, unasked},
			{"own label: yes", labels{ownLabel: "true"}, ""},
			{"own label before the mesh's: yes", labels{ownLabel: "true", meshLabel: "none"}, ""},
			{"own label before the mesh's: no", labels{ownLabel: "false", meshLabel: "xlb"}, "label " + ownLabel + ": false"},
		}},
	} {
		t.Run("--pods="+daemon.name, func(t *testing.T) {
			n := newNode(t)
			s := n.service(t)
			b := n.balance(t, harness.Modes(t)[0], s, byNRI, "--pods="+daemon.name)
			for _, tt := range daemon.pods {
				t.Run(tt.name, func(t *testing.T) { tt.try(t, n, b, s) })
			}
		})
	}
}

// unasked is why a pod is excluded by --pods=labelled whose labels say nothing.
const unasked = "no label asks for it"

type podWithLabels struct {
	name   string
	labels map[string]string
	// why it is excluded; empty: it is served.
	why string
}

// try has the pod be listed with its state, and be served or not, from its first connection on and later.
func (tt *podWithLabels) try(t *testing.T, n *node, b *harness.Balancer, s *service) {
	t.Helper()
	p := n.pod(t, tt.labels)
	for range 2 {
		if tt.why == "" {
			p.requireBalanced(t, s.address)
			n.requireRow(t, b, p, "served", "")
			continue
		}
		p.requireUnbalanced(t, s.address)
		n.requireRow(t, b, p, "excluded", tt.why)
	}
}

// The labels of a pod select what it sees, from its first connection on: of one that is there when the daemon starts, and of one that comes.
func TestLabelsSelectTheViewOfAPod(t *testing.T) {
	n := newNode(t)
	s := n.service(t)
	s.config.Views = []harness.View{{
		Name: "front", Select: []map[string]any{{"namespace": namespace, "labels": map[string]string{"app": "web", "tier": "front*"}}},
		Config: harness.OneCluster(s.address, n.serve(t, "front")),
	}}
	requireFront := func(p *pod) {
		t.Helper()
		if got, want := p.ask(t, s.address, 2), "front from "+p.address.String(); len(got) != 2 || got[0] != want || got[1] != want {
			t.Errorf("%s: answers: got %q, want two of %q", p.name, got, want)
		}
	}
	front, back := map[string]string{"app": "web", "tier": "front-1"}, map[string]string{"app": "web", "tier": "back"}
	isThere := n.pod(t, front)
	n.balance(t, harness.Modes(t)[0], s, byNRI)
	requireFront(isThere)
	requireFront(n.pod(t, front))
	n.pod(t, back).requireBalanced(t, s.address)
	n.pod(t, nil).requireBalanced(t, s.address)
}

// A daemon that does nothing delays a pod as long as containerd waits for it, and keeps none from running. When it runs again it knows them.
func TestAStoppedDaemonKeepsNoPodFromRunning(t *testing.T) {
	n := newNode(t)
	s := n.service(t)
	b := n.balance(t, harness.Modes(t)[0], s, byNRI)
	b.Signal(t, syscall.SIGSTOP)
	// However the test ends, the daemon is to end.
	t.Cleanup(func() { b.Signal(t, syscall.SIGCONT) })
	first := n.pod(t, nil)
	first.requireUnbalanced(t, s.address)
	left := n.pod(t, map[string]string{meshLabel: "none"})
	t.Logf("RunPodSandbox beside a stopped daemon: %v, and %v for the next pod", first.took, left.took)
	if first.took < requestTimeout {
		t.Errorf("the first pod took %v: containerd has not waited %v for the daemon, so nothing is shown", first.took, requestTimeout)
	}
	b.Signal(t, syscall.SIGCONT)
	n.requireRow(t, b, first, "served", "")
	n.requireRow(t, b, left, "excluded", "label "+meshLabel+": none")
	first.requireBalanced(t, s.address)
	left.requireUnbalanced(t, s.address)
	requireConnected(t, b, true)
	n.pod(t, nil).requireBalanced(t, s.address)
}

// Containerd is replaced as pods run: they keep their names and are served meanwhile, and those that come are known.
func TestContainerdRestarts(t *testing.T) {
	n := newNode(t)
	s := n.service(t)
	b := n.balance(t, harness.Modes(t)[0], s, byNRI)
	stays, left := n.pod(t, nil), n.pod(t, map[string]string{meshLabel: "none"})
	requireAll := func() {
		t.Helper()
		n.requireRow(t, b, stays, "served", "")
		n.requireRow(t, b, left, "excluded", "label "+meshLabel+": none")
	}
	requireAll()
	for range 2 {
		n.stop(t)
		requireConnected(t, b, false)
		requireAll()
		n.start(t)
		requireConnected(t, b, true)
		requireAll()
		stays.requireBalanced(t, s.address)
		left.requireUnbalanced(t, s.address)
		n.pod(t, nil).requireBalanced(t, s.address)
	}
}

// A daemon that starts on a node with pods knows them before it serves any.
func TestTheDaemonStartsAfterThePods(t *testing.T) {
	n := newNode(t)
	s := n.service(t)
	serves, left := n.pod(t, nil), n.pod(t, map[string]string{meshLabel: "none"})
	for range 2 {
		b := n.balance(t, harness.Modes(t)[0], s, byNRI)
		n.requireRow(t, b, serves, "served", "")
		n.requireRow(t, b, left, "excluded", "label "+meshLabel+": none")
		serves.requireBalanced(t, s.address)
		left.requireUnbalanced(t, s.address)
		if got, want := b.Metric(t, "xlb_workloads_total", `event="joined"`), float64(len(servers)+1); got != want {
			t.Errorf("network namespaces that were joined: got %v, want %v: all but the one that is left out", got, want)
		}
		b.Terminate(t)
		b.Wait(t, patience)
	}
}

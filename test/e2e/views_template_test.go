// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/nritest"
)

// templatePlane has what each view is to have, by the id of its node.
type templatePlane struct {
	*byServer
	server *harness.Pod
	port   uint16
}

func newTemplatePlane(t *testing.T, node *harness.Node) *templatePlane {
	t.Helper()
	return &templatePlane{serveControlPlaneIn(t, true, node.Place), node.OtherHost(t), 8000}
}

// lead has a node lead the service address to a server of its own.
func (p *templatePlane) lead(t *testing.T, id string) {
	t.Helper()
	p.port++
	w := world{}
	w.put(assignmentType, "web", assignmentOf("web", p.server.OriginAt(t, id, netip.AddrPortFrom(p.server.Address, p.port)).Address))
	w.put(clusterType, "web", edsCluster(p.byServer, "web", "web"))
	w.put(listenerType, "web", rdsListener(p.byServer, "web", podService, "table"))
	w.put(routesType, "table", tableOf("table", routeTo("/", "web", nil)))
	p.deliverTo(t, id, w)
}

// A template makes a view for each Kubernetes namespace, each of which is a node of its own to the control plane: at the start for the pods that there are, and
// later with the first pod of a namespace. A pod whose view has nothing yet sees nothing, and not the shared configuration.
func TestATemplateMakesAViewForEachNamespaceOfPods(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	const requests = 20
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		node := harness.NewNode(t)
		plane := newTemplatePlane(t, node)
		for _, id := range []string{"test", "of-shop", "of-bank", "new-shop", "new-bank", "new-lab"} {
			plane.lead(t, id)
		}
		config := harness.Config{Fields: plane.fieldsOf("test")}
		tenant := harness.View{
			Name: "tenant", Select: []map[string]any{{"namespace": "*"}}, ForEach: []string{"namespace"}, Node: map[string]any{"id": "of-{namespace}", "cluster": "tenants"},
			Config: harness.Config{Fields: plane.fieldsOf("template")},
		}
		config.Views = []harness.View{tenant}

		sandbox := func(pod *harness.Pod, namespace, name string) *api.PodSandbox {
			s := sandboxOf(t, pod, namespace+"-"+name, nil)
			s.Namespace = namespace
			return s
		}
		pods := map[string]*harness.Pod{}
		for _, name := range []string{"shop-0", "shop-1", "bank-0", "lab-0", "bare"} {
			pods[name] = node.Pod(t)
		}
		ask := func(name string, requests int) programs.LoadReport {
			return runLoad(t, pods[name].Place, programs.LoadSpec{Address: podService.String(), Requests: requests, Timeout: time.Second, Asks: []programs.Ask{{Path: "/from"}}})
		}
		requireAll := func(name, identity string) {
			t.Helper()
			load := ask(name, requests)
			requireEach(t, &load, pods[name].Address, requests, identity)
		}
		awaitView := func(name, identity string) {
			t.Helper()
			harness.Eventually(t, patience, name+" sees "+identity, func() bool {
				load := ask(name, 1)
				return load.Served[0][identity+" from "+pods[name].Address.String()] == 1
			})
			requireAll(name, identity)
		}

		pods["shop-0"].Greeter(t, "resident")
		pods["bare"].Greeter(t, "resident")
		balancer, connection := reportedWith(t, mode, node, nritest.New(t), config, []*api.PodSandbox{sandbox(pods["shop-0"], "shop", "0")})
		requireAll("shop-0", "of-shop")
		requireAll("bare", "test")
		for _, begins := range []struct{ pod, namespace, name string }{{"shop-1", "shop", "1"}, {"bank-0", "bank", "0"}, {"lab-0", "lab", "0"}} {
			pods[begins.pod].Greeter(t, "resident")
			connection.MustBegin(sandbox(pods[begins.pod], begins.namespace, begins.name))
		}
		// Its view is there before it.
		requireAll("shop-1", "of-shop")
		awaitView("bank-0", "of-bank")
		if load := ask("lab-0", 1); load.Refused != 1 {
			t.Errorf("a pod whose view has nothing is led somewhere: %+v", load)
		}
		plane.lead(t, "of-lab")
		awaitView("lab-0", "of-lab")

		// Another node of each view: none of their requests fails while the views change.
		spec := programs.LoadSpec{Address: podService.String(), Connections: 2, Pause: time.Millisecond, Asks: []programs.Ask{{Path: "/from"}}}
		var loads []*harness.Process
		for _, name := range []string{"shop-0", "bank-0", "lab-0"} {
			loads = append(loads, pods[name].Program(t, programs.LoadProgram, spec))
		}
		awaitAnswers(t, loads, 20)
		tenant.Node["id"] = "new-{namespace}"
		balancer.ReplaceViews(t, []harness.View{tenant})
		for _, name := range []string{"shop", "bank", "lab"} {
			awaitView(name+"-0", "new-"+name)
		}
		awaitProgress(t, loads, 20)
		for i, l := range loads {
			var report programs.LoadReport
			l.Finish(t, &report)
			requireClean(t, report)
			name := []string{"shop", "bank", "lab"}[i]
			for body := range report.Served[0] {
				if of := " from " + pods[name+"-0"].Address.String(); body != "of-"+name+of && body != "new-"+name+of {
					t.Errorf("%s: got answers of %q", name, body)
				}
			}
		}
		if text := plane.refusals(); text != "" {
			t.Errorf("the control plane was refused: %s", text)
		}
		if n := balancer.Metric(t, "xlb_verdicts_total", `verdict="connect_no_anchor"`); n != 0 {
			t.Errorf("connections of namespaces that the daemon does not know: got %v, want none", n)
		}
	})
}

// for_each changes from namespace to pod. A pod of another namespace, called as a namespace was, comes while its view is pending.
func TestAViewThatIsToComeShowsNothingOfAnothers(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		node := harness.NewNode(t)
		plane := newTemplatePlane(t, node)
		for _, id := range []string{"test", "of-shop", "pod-shop-0"} {
			plane.lead(t, id)
		}
		config := harness.Config{Fields: plane.fieldsOf("test")}
		tenant := harness.View{
			Name: "tenant", Select: []map[string]any{{"namespace": "*"}}, ForEach: []string{"namespace"}, Node: map[string]any{"id": "of-{namespace}"},
			Config: harness.Config{Fields: plane.fieldsOf("template")},
		}
		config.Views = []harness.View{tenant}
		shop, evil := node.Pod(t), node.Pod(t)
		shop.Greeter(t, "resident")
		ask := func(p *harness.Pod) programs.LoadReport {
			return runLoad(t, p.Place, programs.LoadSpec{Address: podService.String(), Requests: 1, Timeout: time.Second, Asks: []programs.Ask{{Path: "/from"}}})
		}
		awaitView := func(p *harness.Pod, identity string) {
			t.Helper()
			harness.Eventually(t, patience, "sees "+identity, func() bool {
				load := ask(p)
				return load.Served[0][identity+" from "+p.Address.String()] == 1
			})
		}
		first := sandboxOf(t, shop, "shop-0", nil)
		balancer, connection := reportedWith(t, mode, node, nritest.New(t), config, []*api.PodSandbox{first})
		awaitView(shop, "of-shop")
		tenant.ForEach, tenant.Node = []string{"pod"}, map[string]any{"id": "pod-{pod}"}
		balancer.ReplaceViews(t, []harness.View{tenant})
		awaitView(shop, "pod-shop-0")
		evil.Greeter(t, "resident")
		second := sandboxOf(t, evil, "evil-0", nil)
		second.Namespace, second.Name = "evil", "shop"
		connection.MustBegin(second)
		for range 20 {
			load := ask(evil)
			if len(load.Served[0]) > 0 {
				t.Fatalf("pod evil/shop, whose view (node pod-shop) has no configuration, is answered: %v", load.Served[0])
			}
		}
	})
}

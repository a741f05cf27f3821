// SPDX-License-Identifier: Apache-2.0

package istiod

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// byNamespace is the service of each namespace (testdata/views.yaml).
const byNamespace, atByNamespace = "shop.example.com", "240.0.0.10:9080"

// tenants are pods of Kubernetes' namespaces on one node, each of which sees the view of its own namespace.
type tenants struct {
	*control
	xlb   *harness.Balancer
	node  *harness.Node
	names []string
	pods  map[string]*harness.Pod
	// servers are on another host, two for each namespace.
	servers map[string][]netip.AddrPort
}

func newTenants(t *testing.T, mode harness.Mode, environment ...string) *tenants {
	t.Helper()
	w := &tenants{node: harness.NewNode(t), names: []string{"blue", "red"}, pods: map[string]*harness.Pod{}, servers: map[string][]netip.AddrPort{}}
	host := w.node.OtherHost(t)
	w.control = startIstiod(t, w.node.Place, emptyKubernetesIn(t, w.node.Place), "testdata/mesh.yaml", true, slices.Concat(upstream, environment)...)
	var views []harness.View
	for i, name := range w.names {
		pod := w.node.Pod(t)
		pod.Place = pod.Below(t, "tenants/"+name)
		resident, _ := pod.Greeter(t, "resident")
		w.pods[name] = pod
		for j, suffix := range []string{"a", "b"} {
			w.servers[name] = append(w.servers[name], host.OriginAt(t, name+" "+suffix, netip.AddrPortFrom(host.Address, uint16(8000+2*i+j))).Address)
		}
		w.lead(t, name, 0)
		views = append(views, harness.View{Name: name, Select: []map[string]any{{"cgroup": cgroupOf(t, resident)}}, Config: w.view(name)})
	}
	harness.Eventually(t, patience, "istiod has read its files", func() bool { return len(w.log.lines("Full push, new service")) > 0 })
	shared := harness.OneCluster(harness.Service(), w.servers["blue"][0])
	shared.Views = views
	w.xlb = harness.Start(t, mode, shared, w.node.Place)
	return w
}

func cgroupOf(t *testing.T, of *harness.Process) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", of.PID()))
	if err != nil {
		t.Fatal(err)
	}
	_, path, found := strings.Cut(string(text), "0::")
	if !found {
		t.Fatalf("no cgroup v2 in %q", text)
	}
	return strings.TrimSpace(path)
}

// lead has the service of a namespace lead to one of its servers.
func (w *tenants) lead(t *testing.T, namespace string, server int) {
	t.Helper()
	to := w.servers[namespace][server]
	w.configureAs(t, namespace+".yaml", "views.yaml", map[string]string{"NAMESPACE": namespace, "SERVER": to.Addr().String(), "PORT": fmt.Sprint(to.Port())})
}

// view is the bootstrap of a view that asks as a sidecar of a namespace does.
func (w *tenants) view(namespace string) harness.Config {
	config := w.bootstrap("view")
	config.Fields["node"] = object{
		"id": fmt.Sprintf("sidecar~%s~view.%s~%s.svc.cluster.local", w.node.Address, namespace, namespace), "cluster": "view." + namespace,
		"metadata": object{"CLUSTER_ID": "Kubernetes", "NAMESPACE": namespace, "ISTIO_VERSION": "1.31.0", "PROXY_CONFIG": object{"concurrency": 2}},
	}
	return config
}

// awaitAnswer has a pod ask until a server of its namespace answers.
func (w *tenants) awaitAnswer(t *testing.T, namespace, identity string) {
	t.Helper()
	harness.Eventually(t, patience, namespace+" is served by "+identity, func() bool {
		var report programs.ExchangeReport
		w.pods[namespace].Program(t, programs.ExchangeProgram, programs.ExchangeSpec{
			Address: atByNamespace, Timeout: time.Second, Steps: []programs.Step{{Send: request{"GET", byNamespace, "/", ""}.wire()}, {Receive: true}},
		}).Next(t, &report)
		return len(report.Replies) == 1 && report.Replies[0].Identity == identity
	})
}

// One daemon asks one istiod for the sidecars of two namespaces. Each view has what istiod exports to its own namespace, under the same name and at the same
// address, and what changes of one is no change of the other. istiod's check that a client's certificate is of the namespace is on; it checks no client without a certificate.
func TestNamespacesHaveViewsOfTheirOwn(t *testing.T) {
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		w := newTenants(t, mode, "PILOT_ENABLE_XDS_IDENTITY_CHECK=true")
		loads := map[string]*harness.Process{}
		for _, name := range w.names {
			w.awaitAnswer(t, name, name+" a")
			redirected := ask(t, w.pods[name].Place, atByNamespace, request{"GET", byNamespace, "/redir", ""})
			if got := redirected[0].Fields; len(got) != 1 || !strings.HasSuffix(got[0], "/of-"+name) {
				t.Errorf("%s: redirected to %q, want a path of its own namespace", name, got)
			}
			loads[name] = w.pods[name].Program(t, programs.LoadProgram, programs.LoadSpec{Address: atByNamespace, Connections: 2, Asks: []programs.Ask{{Path: "/", Host: byNamespace}}, Pause: time.Millisecond})
		}
		for i := range 4 {
			server := (i + 1) % 2
			w.lead(t, "blue", server)
			w.awaitAnswer(t, "blue", "blue "+[]string{"a", "b"}[server])
			w.awaitAnswer(t, "red", "red a")
		}
		for _, name := range w.names {
			var report programs.LoadReport
			loads[name].Finish(t, &report)
			if report.Failed != 0 || report.Total < 100 {
				t.Errorf("%s: %d of %d requests failed: %v", name, report.Failed, report.Total, report.Failures)
			}
			for by := range report.Served[0] {
				if !strings.HasPrefix(by, name+" ") || name == "red" && by != "red a" {
					t.Errorf("%s: %d answers of %q", name, report.Served[0][by], by)
				}
			}
			t.Logf("%s: %d requests, %v", name, report.Total, report.Served[0])
		}
		w.xlb.RequireFast(t, mode, 0.9)
		if refused := w.log.lines("ACK ERROR"); len(refused) > 0 {
			t.Errorf("refused of istiod: %v", refused)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// onlyService is an address that one view has alone.
var onlyService = netip.MustParseAddrPort("10.96.0.90:80")

// viewers are pods each of which sees a view of its own, and one that has none.
type viewers struct {
	node *harness.Node
	// pods are in the order of views, and behind those the one that has none.
	pods  []*harness.Pod
	views []harness.View
	// servers of each view, and of the shared configuration, by their identities: "view0 a", "view0 b", ..., "shared a".
	servers map[string]netip.AddrPort
}

// newViewers makes so many pods that have a view of their own, whose servers are on another host. All views have the same names and the same address.
func newViewers(t *testing.T, count int) *viewers {
	t.Helper()
	v := &viewers{node: harness.NewNode(t), servers: map[string]netip.AddrPort{}}
	server := v.node.OtherHost(t)
	for i := range count + 1 {
		pod := v.node.Pod(t)
		pod.Place = pod.Below(t, fmt.Sprintf("tenants/t%d", i))
		resident, _ := pod.Greeter(t, "resident")
		v.pods = append(v.pods, pod)
		name := fmt.Sprintf("view%d", i)
		if i == count {
			name = "shared"
		} else {
			v.views = append(v.views, harness.View{Name: name, Select: []map[string]any{{"cgroup": cgroupOf(t, resident)}}})
		}
		for j, suffix := range []string{"a", "b"} {
			identity := name + " " + suffix
			v.servers[identity] = server.OriginAt(t, identity, netip.AddrPortFrom(server.Address, uint16(8000+2*i+j))).Address
		}
	}
	return v
}

// cgroupOf is where a process is, as the daemon sees it.
func cgroupOf(t *testing.T, of *harness.Process) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", of.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSpace(path)
		}
	}
	t.Fatalf("no cgroup v2 in %q", text)
	return ""
}

// to leads the service address to one server.
func (v *viewers) to(identity string) harness.Config {
	return harness.OneCluster(podService, v.servers[identity])
}

// start starts a daemon whose views lead to their servers a, as the shared configuration does.
func (v *viewers) start(t *testing.T, mode harness.Mode, arguments ...string) *harness.Balancer {
	t.Helper()
	config := v.to("shared a")
	config.Arguments = arguments
	for i := range v.views {
		if v.views[i].Config.Listeners == nil {
			v.views[i].Config = v.to(v.views[i].Name + " a")
		}
	}
	config.Views = v.views
	balancer := harness.Start(t, mode, config, v.node.Place)
	requireWorkloads(t, balancer, float64(len(v.pods)))
	return balancer
}

// startLoads has each pod send requests to the service address, which say who answers, and returns when each has had answers.
func (v *viewers) startLoads(t *testing.T) (loads []*harness.Process) {
	t.Helper()
	for _, pod := range v.pods {
		spec := programs.LoadSpec{Address: podService.String(), Connections: 2, Pause: time.Millisecond, Asks: []programs.Ask{{Path: "/from"}}}
		loads = append(loads, pod.Program(t, programs.LoadProgram, spec))
	}
	awaitAnswers(t, loads, 20)
	return loads
}

// nameOf is that of the view which a pod sees.
func (v *viewers) nameOf(pod int) string {
	if pod < len(v.views) {
		return v.views[pod].Name
	}
	return "shared"
}

// Pods with one service address each see the routes of their own view, where all names are the same, and others the shared ones. What one view alone has
// no other sees.
func TestFivePodsWithOneAddressHaveFiveRoutes(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		v := newViewers(t, 5)
		both := v.to("view0 a")
		both.Add(harness.OneCluster(onlyService, v.servers["view0 b"]))
		v.views[0].Config = both
		balancer := v.start(t, mode)
		const connections, requests = 2, 200
		for i, pod := range v.pods {
			load := runLoad(t, pod.Place, programs.LoadSpec{Address: podService.String(), Connections: connections, Requests: requests / connections, Asks: []programs.Ask{{Path: "/from"}}})
			requireEach(t, &load, pod.Address, requests, v.nameOf(i)+" a")
		}
		load := runLoad(t, v.node.Place, programs.LoadSpec{Address: podService.String(), Requests: requests, Asks: []programs.Ask{{Path: "/from"}}})
		requireEach(t, &load, v.node.Address, requests, "shared a")
		requireFast(t, balancer, mode, (len(v.pods)+1)*requests)

		load = runLoad(t, v.pods[0].Place, programs.LoadSpec{Address: onlyService.String(), Requests: requests, Asks: []programs.Ask{{Path: "/from"}}})
		requireEach(t, &load, v.pods[0].Address, requests, "view0 b")
		for i, pod := range v.pods[1:] {
			load := runLoad(t, pod.Place, programs.LoadSpec{Address: onlyService.String(), Requests: 1, Timeout: time.Second})
			if load.Refused != 1 {
				t.Errorf("pod %d: an address of another's view leads somewhere: %+v", i+1, load)
			}
		}
	})
}

// While files of views change, one after another, each request is answered by a server of the requester's own view, none fails, and in the end each view leads
// where its file says.
func TestViewsChangeUnderLoad(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	const rounds = 10
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		v := newViewers(t, 5)
		balancer := v.start(t, mode)
		loads := v.startLoads(t)
		for round := range rounds {
			suffix := []string{" b", " a"}[round%2]
			for i := range v.views {
				balancer.ReplaceView(t, v.views[i].Name, v.to(v.views[i].Name+suffix))
				if round == 0 && i == 0 {
					// A client that keeps its connection has its next request routed by the new table.
					harness.Eventually(t, patience, "requests by the view's new file", func() bool {
						var report programs.LoadReport
						loads[0].Ask(t, "report", &report)
						return report.Served[0][answerOf(v, 0, " b")] > 0
					})
				}
			}
			awaitProgress(t, loads, 10)
		}
		// The last round has all lead to a.
		for i := range v.views {
			requireLeads(t, loads[i], v, i)
		}
		for i, l := range loads {
			var report programs.LoadReport
			l.Finish(t, &report)
			requireClean(t, report)
			for body := range report.Served[0] {
				if body != answerOf(v, i, " a") && (i == len(v.views) || body != answerOf(v, i, " b")) {
					t.Errorf("pod %d, view %s: got answers of %q", i, v.nameOf(i), body)
				}
			}
		}
	})
}

// answerOf is what a server of a pod's view answers to the pod.
func answerOf(v *viewers, pod int, suffix string) string {
	return fmt.Sprintf("%s%s from %s", v.nameOf(pod), suffix, v.pods[pod].Address)
}

// awaitProgress returns when each load has had so many more answers.
func awaitProgress(t *testing.T, loads []*harness.Process, more int) {
	t.Helper()
	for _, l := range loads {
		var before programs.LoadReport
		l.Ask(t, "report", &before)
		harness.Eventually(t, patience, "a load that goes on", func() bool {
			var now programs.LoadReport
			l.Ask(t, "report", &now)
			return now.Total >= before.Total+more
		})
	}
}

// requireLeads waits until a pod's requests are answered by server a of its view alone.
func requireLeads(t *testing.T, load *harness.Process, v *viewers, pod int) {
	t.Helper()
	harness.Eventually(t, patience, fmt.Sprintf("requests of pod %d lead where its view's file says", pod), func() bool {
		var before, now programs.LoadReport
		load.Ask(t, "report", &before)
		awaitProgress(t, []*harness.Process{load}, 20)
		load.Ask(t, "report", &now)
		others := answerOf(v, pod, " b")
		return now.Served[0][others] == before.Served[0][others]
	})
}

// A file of a view that cannot be used changes nothing of that view, and nothing of another, whose files are taken as before.
func TestAViewThatCannotBeUsedStaysAsItIs(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		v := newViewers(t, 2)
		balancer := v.start(t, mode)
		broken := v.to("view0 b")
		broken.Clusters = nil
		balancer.ReplaceView(t, "view0", broken)
		harness.Eventually(t, patience, "a refusal in the log", func() bool {
			return strings.Contains(balancer.Stderr(), "view=view0")
		})
		balancer.ReplaceView(t, "view1", v.to("view1 b"))
		want := []string{"view0 a", "view1 b", "shared a"}
		for i, pod := range v.pods {
			harness.Eventually(t, patience, "requests to "+want[i], func() bool {
				load := runLoad(t, pod.Place, programs.LoadSpec{Address: podService.String(), Requests: 10, Asks: []programs.Ask{{Path: "/from"}}})
				requireClean(t, load)
				return load.Served[0][fmt.Sprintf("%s from %s", want[i], pod.Address)] == 10
			})
		}
	})
}

// The host's own network namespace may have a view, too. Its pods do not see that.
func TestTheHostHasAViewOfItsOwn(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		v := newViewers(t, 1)
		v.views[0].Config = v.to("view0 a")
		config := v.to("shared a")
		v.views = append(v.views, harness.View{Name: "host", Select: []map[string]any{{"host": true}}, Config: v.to("view0 b")})
		config.Views = v.views
		harness.Start(t, mode, config, v.node.Place)
		for by, from := range map[string]*harness.Place{"view0 a": v.pods[0].Place, "shared a": v.pods[1].Place, "view0 b": v.node.Place} {
			load := runLoad(t, from, programs.LoadSpec{Address: podService.String(), Requests: 20, Asks: []programs.Ask{{Path: "/from"}}})
			requireEach(t, &load, from.Address, 20, by)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// controlledViewers are viewers of which each view, and the shared configuration, is a node of one control plane.
type controlledViewers struct {
	*viewers
	plane *byServer
}

func newControlledViewers(t *testing.T, count int, delta bool) *controlledViewers {
	t.Helper()
	v := &controlledViewers{viewers: newViewers(t, count)}
	v.plane = serveControlPlaneIn(t, delta, v.node.Place)
	for i := range v.views {
		v.views[i].Config = harness.Config{Fields: v.plane.fieldsOf(v.views[i].Name)}
	}
	return v
}

// lead has the control plane lead the service address to a server of a view, under names that all views have.
func (v *controlledViewers) lead(t *testing.T, view, suffix string) {
	t.Helper()
	w := world{}
	for _, name := range []string{"a", "b"} {
		w.put(assignmentType, name, assignmentOf(name, v.servers[view+" "+name]))
		w.put(clusterType, name, edsCluster(v.plane, name, name))
	}
	w.put(listenerType, "web", rdsListener(v.plane, "web", podService, "table"))
	w.put(routesType, "table", tableOf("table", routeTo("/", suffix, nil)))
	v.plane.deliverTo(t, view, w)
}

func (v *controlledViewers) startControlled(t *testing.T, mode harness.Mode) *harness.Balancer {
	t.Helper()
	balancer := harness.Start(t, mode, harness.Config{Fields: v.plane.fieldsOf("shared"), Views: v.views}, v.node.Place)
	requireWorkloads(t, balancer, float64(len(v.pods)))
	return balancer
}

// requireServer waits until a load is answered by one server of its pod's view alone.
func (v *controlledViewers) requireServer(t *testing.T, load *harness.Process, pod int, suffix string) {
	t.Helper()
	harness.Eventually(t, patience, fmt.Sprintf("requests of pod %d lead to server %s of its view", pod, suffix), func() bool {
		var before, now programs.LoadReport
		load.Ask(t, "report", &before)
		awaitProgress(t, []*harness.Process{load}, 10)
		load.Ask(t, "report", &now)
		own := answerOf(v.viewers, pod, " "+suffix)
		return now.Served[0][own]-before.Served[0][own] == now.Total-before.Total
	})
}

// One server answers each view as the node that its bootstrap says. While it changes what it has for each, is gone, and is back with something else, each request
// is answered by a server of the requester's own view, and none fails.
func TestViewsOfOneControlPlaneChangeUnderLoad(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	const rounds = 6
	for _, delta := range []bool{false, true} {
		t.Run(map[bool]string{false: "sotw", true: "delta"}[delta], func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				v := newControlledViewers(t, 2, delta)
				leadAll := func(suffix string) {
					for pod := range v.pods {
						v.lead(t, v.nameOf(pod), suffix)
					}
				}
				leadAll("a")
				balancer := v.startControlled(t, mode)
				loads := v.startLoads(t)
				for round := range rounds {
					leadAll([]string{"b", "a"}[round%2])
					awaitProgress(t, loads, 10)
				}
				// One view's change is no other's.
				v.lead(t, "view0", "b")
				for pod, suffix := range []string{"b", "a", "a"} {
					v.requireServer(t, loads[pod], pod, suffix)
				}

				v.plane.server.Stop()
				harness.Eventually(t, patience, "the streams are seen to have ended", func() bool {
					return balancer.Metric(t, "envoy_control_plane_connected_state") == 0
				})
				awaitProgress(t, loads, 20)
				v.lead(t, "view1", "b")
				v.plane.serve()
				for pod, suffix := range []string{"b", "b", "a"} {
					v.requireServer(t, loads[pod], pod, suffix)
				}
				harness.Eventually(t, patience, "all views are connected again", func() bool {
					return balancer.Metric(t, "envoy_control_plane_connected_state") == 1
				})
				for i, l := range loads {
					var report programs.LoadReport
					l.Finish(t, &report)
					requireClean(t, report)
					for body := range report.Served[0] {
						if body != answerOf(v.viewers, i, " a") && body != answerOf(v.viewers, i, " b") {
							t.Errorf("pod %d, view %s: got answers of %q", i, v.nameOf(i), body)
						}
					}
				}
				if text := v.plane.refusals(); text != "" {
					t.Errorf("the control plane was refused: %s", text)
				}
			})
		})
	}
}

// A view that the control plane says nothing to keeps the others waiting for its own initial_fetch_timeout. Until it has something, nothing of it is intercepted,
// and its workloads do not see the shared configuration.
func TestAViewWithoutAnAnswerIsNotServed(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		v := newControlledViewers(t, 2, true)
		for _, kind := range []string{"cds_config", "lds_config"} {
			source := v.plane.source("", "")
			source["initial_fetch_timeout"] = "1s"
			v.views[1].Config.Fields["dynamic_resources"].(map[string]any)[kind] = source
		}
		for _, name := range []string{"view0", "shared"} {
			v.lead(t, name, "a")
		}
		balancer := v.startControlled(t, mode)
		if text := balancer.Stderr(); !strings.Contains(text, "going on without a part of the configuration") || !strings.Contains(text, "view=view1") {
			t.Errorf("the log does not say that the daemon goes on without the view:\n%s", text)
		}
		for pod, want := range []string{"view0 a", "", "shared a"} {
			if want == "" {
				continue
			}
			load := runLoad(t, v.pods[pod].Place, programs.LoadSpec{Address: podService.String(), Requests: 20, Asks: []programs.Ask{{Path: "/from"}}})
			requireEach(t, &load, v.pods[pod].Address, 20, want)
		}
		load := runLoad(t, v.pods[1].Place, programs.LoadSpec{Address: podService.String(), Requests: 1, Timeout: time.Second})
		if load.Refused != 1 {
			t.Errorf("the address leads somewhere in a view that has nothing: %+v", load)
		}
		v.lead(t, "view1", "a")
		harness.Eventually(t, patience, "the view is served once it has something", func() bool {
			load := runLoad(t, v.pods[1].Place, programs.LoadSpec{Address: podService.String(), Requests: 1, Timeout: time.Second, Asks: []programs.Ask{{Path: "/from"}}})
			return load.Served[0][answerOf(v.viewers, 1, " a")] == 1
		})
	})
}

// Two views have one cluster at one endpoint, which is secured by secrets of the same names from the same control plane. The endpoint accepts what one view's node
// is sent: the other view reaches it neither with that, nor on a connection that the first has secured.
func TestSecretsOfOneNameSecureTheirOwnViewAlone(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		v := newControlledViewers(t, 2, true)
		host := v.node.OtherHost(t)
		server := host.OriginAt(t, "meshed", netip.AddrPortFrom(host.Address, 8000)).Address
		endpoint := netip.AddrPortFrom(host.Address, 8443)
		accepted := newTrust(t)
		accepted.sidecarAt(t, host.Place, endpoint, server)
		for name, by := range map[string]*trust{"view0": accepted, "view1": newTrust(t)} {
			w := world{}
			cluster := edsCluster(v.plane, "shop", "shop")
			cluster["transport_socket"] = meshSocketWith(webIdentity, func(name string) map[string]any {
				return map[string]any{"name": name, "sds_config": v.plane.source(secretType, name)}
			})
			w.put(assignmentType, "shop", assignmentOf("shop", endpoint))
			w.put(clusterType, "shop", cluster)
			w.put(listenerType, "web", rdsListener(v.plane, "web", podService, "table"))
			w.put(routesType, "table", tableOf("table", routeTo("/", "shop", nil)))
			w.put(secretType, "default", ownSecret(by.issue(t, callerIdentity)))
			w.put(secretType, "ROOTCA", authoritySecret(by.pem))
			v.plane.deliverTo(t, name, w)
		}
		v.lead(t, "shared", "a")
		v.startControlled(t, mode)
		for range 5 {
			for pod, want := range []string{"200 meshed", "503 "} {
				if got := firstAnswer(t, v.pods[pod].Place, podService, "/"); got != want {
					t.Errorf("pod %d: got %s, want %s", pod, got, want)
				}
			}
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package istiod

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/tcptest"
)

// istiod is killed under load, and another one takes its place: what is in force stays, and what changed meanwhile is followed.
func TestKilledControlPlanesCostNoRequest(t *testing.T) {
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		w := &world{place: harness.SameHost(t), a: newOrigin(t, "a"), b: newOrigin(t, "b"), c: newOrigin(t, "c")}
		values := w.values(t)
		w.control = w.anotherIstiod(t, values)
		// It stands before istiod as a Service of Kubernetes does.
		front := tcptest.NewSwitchboard(t, w.grpc)
		before := &control{grpc: front.Address}
		w.xlb = harness.Start(t, mode, before.bootstrap("xlb"), w.place)
		w.envoy = harness.StartEnvoy(t, before.bootstrap("envoy"), w.place)
		for _, to := range []string{atXLB, atEnvoy} {
			w.await(t, to, request{"GET", shop, "/", ""}, func(r programs.Reply) bool { return r.Status == http.StatusOK })
		}
		both := []*watched{{name: "XLB"}, {name: "Envoy"}}
		for i, to := range []string{atXLB, atEnvoy} {
			both[i].load = w.place.Program(t, programs.LoadProgram, programs.LoadSpec{
				Address: to, Connections: 2, Asks: []programs.Ask{{Path: "/", Host: shop}}, Pause: time.Millisecond,
			})
		}
		for n, want := range []string{"b", "a"} {
			w.Kill(t)
			harness.Eventually(t, patience, "XLB knows that istiod is gone", func() bool { return w.xlb.Metric(t, "envoy_control_plane_connected_state") == 0 })
			if reply := ask(t, w.place, atXLB, request{"GET", shop, "/", ""})[0]; reply.Status != http.StatusOK {
				t.Errorf("without istiod: %d", reply.Status)
			}
			values["A"], values["B"] = values["B"], values["A"]
			w.control = w.anotherIstiod(t, values)
			began := time.Now()
			front.Lead(w.grpc)
			for _, to := range []string{atXLB, atEnvoy} {
				w.await(t, to, request{"GET", shop, "/", ""}, func(r programs.Reply) bool { return r.Status == http.StatusOK && r.Identity == want })
				t.Logf("outage %d: %s follows %v after another istiod can be reached", n, to, time.Since(began).Round(time.Millisecond))
			}
		}
		for _, one := range both {
			var r programs.LoadReport
			one.load.Finish(t, &r)
			if r.Failed != 0 || r.Total < 100 {
				t.Errorf("%s: %d of %d requests failed: %v", one.name, r.Failed, r.Total, r.Failures)
			}
			t.Logf("%s: %d requests, %d failed", one.name, r.Total, r.Failed)
		}
		if refused := w.log.lines("ACK ERROR"); len(refused) > 0 {
			t.Errorf("istiod was told: %v", slices.Compact(refused))
		}
	})
}

// anotherIstiod starts one, and waits until it has its configuration: one that had none would say that there is nothing.
func (w *world) anotherIstiod(t *testing.T, values map[string]string) *control {
	t.Helper()
	c := startIstiod(t, w.place, emptyKubernetes(t), "testdata/mesh.yaml", true, upstream...)
	c.configure(t, "shop.yaml", values)
	harness.Eventually(t, patience, "istiod has read its files", func() bool { return len(c.log.lines("Full push, new service")) > 0 })
	time.Sleep(time.Second) // istiod gathers what changes for 100 ms
	return c
}

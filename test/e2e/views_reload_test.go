// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// While views come and go, and workloads come to see others, no request fails, and each is answered by a server of a view that the requester has seen.
func TestViewsComeAndGoUnderLoad(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	const rounds = 3
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		v := newViewers(t, 4)
		balancer := v.start(t, mode)
		loads := v.startLoads(t)
		// In the place of the first two views another one is for both pods, and the last two are for each other's pods.
		joined := v.views[0]
		joined.Name, joined.Select = "joined", append(slices.Clone(v.views[0].Select), v.views[1].Select...)
		balancer.ReplaceView(t, joined.Name, v.to("shared b"))
		crossed := []harness.View{joined, v.views[2], v.views[3]}
		crossed[1].Select, crossed[2].Select = v.views[3].Select, v.views[2].Select
		steps := []struct {
			name  string
			views []harness.View
			// servers are those of the pods, in their order.
			servers []string
		}{
			{"views are gone", v.views[2:], []string{"shared a", "shared a", "view2 a", "view3 a", "shared a"}},
			{"other views", crossed, []string{"shared b", "shared b", "view3 a", "view2 a", "shared a"}},
			{"no views", nil, []string{"shared a", "shared a", "shared a", "shared a", "shared a"}},
			{"the first views", v.views, []string{"view0 a", "view1 a", "view2 a", "view3 a", "shared a"}},
		}
		allowed := make([][]string, len(v.pods))
		for range rounds {
			for _, step := range steps {
				balancer.ReplaceViews(t, step.views)
				for i, l := range loads {
					want := fmt.Sprintf("%s from %s", step.servers[i], v.pods[i].Address)
					allowed[i] = append(allowed[i], want)
					requireAnswersOf(t, l, fmt.Sprintf("%s: pod %d", step.name, i), want)
				}
			}
		}
		for i, l := range loads {
			var report programs.LoadReport
			l.Finish(t, &report)
			requireClean(t, report)
			for body := range report.Served[0] {
				if !slices.Contains(allowed[i], body) {
					t.Errorf("pod %d: got answers of %q, want of %q alone", i, body, allowed[i])
				}
			}
		}
		// A view that has gone takes its listeners with it once no connection is left.
		harness.Eventually(t, patience, "the views that have gone leave", func() bool {
			return !strings.Contains(balancer.Get(t, "/xlb/listeners"), `"joined"`)
		})
		if log := balancer.Stderr(); strings.Contains(log, "level=ERROR") || strings.Contains(log, "failed") {
			t.Errorf("something was refused, or has failed:\n%s", log)
		}
	})
}

// requireAnswersOf waits until a load's requests are all answered by one server.
func requireAnswersOf(t *testing.T, load *harness.Process, what, body string) {
	t.Helper()
	harness.Eventually(t, patience, what+": answers of "+body, func() bool {
		var before, now programs.LoadReport
		load.Ask(t, "report", &before)
		awaitProgress(t, []*harness.Process{load}, 20)
		load.Ask(t, "report", &now)
		return now.Served[0][body]-before.Served[0][body] == now.Total-before.Total
	})
}

// A file of views that cannot be used changes nothing, is shown as refused, and comes in force when it can.
func TestAFileOfViewsAppliesAsAWhole(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		v := newViewers(t, 2)
		all := v.views
		v.views = all[:1]
		balancer := v.start(t, mode)
		leads := func(pod int, to string) {
			t.Helper()
			load := runLoad(t, v.pods[pod].Place, programs.LoadSpec{Address: podService.String(), Requests: 10, Asks: []programs.Ask{{Path: "/from"}}})
			requireEach(t, &load, v.pods[pod].Address, 10, to)
		}
		leads(1, "shared a")
		// The file of the second view is not there yet.
		balancer.ReplaceViews(t, all)
		harness.Eventually(t, patience, "a refusal", func() bool {
			return balancer.Metric(t, "xlb_config_refused_total", "kind", "views", "source", "file") == 1
		})
		if rows := balancer.Get(t, "/xlb/config"); !strings.Contains(rows, "view view1: read configuration") {
			t.Errorf("no row says why the views were refused: %s", rows)
		}
		leads(0, "view0 a")
		leads(1, "shared a")
		// With it they are in force.
		balancer.ReplaceView(t, "view1", v.to("view1 b"))
		harness.Eventually(t, patience, "views in force", func() bool {
			return balancer.Metric(t, "xlb_config_last_reload_successful", "kind", "views", "source", "file") == 1
		})
		leads(0, "view0 a")
		leads(1, "view1 b")
	})
}

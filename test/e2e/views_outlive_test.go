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

// Views come and go that have a cluster together with others, the first ones of it too: it stays the cluster of those that are left, and no request fails.
func TestASharedClusterOutlivesViews(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		v := newViewers(t, 4)
		v.equal(" b") // the shared configuration has another server
		balancer := v.start(t, mode)
		loads := v.startLoads(t)
		together := func(names ...string) {
			t.Helper()
			harness.Eventually(t, patience, fmt.Sprintf("one cluster of %q", names), func() bool {
				return slices.ContainsFunc(rowsOf(t, balancer, "/xlb/clusters"), func(r sharedRow) bool {
					have := r.Views
					if len(have) == 0 {
						have = []string{r.View}
					}
					return slices.Equal(have, names)
				})
			})
		}
		together("view0", "view1", "view2", "view3")
		for range 3 {
			balancer.ReplaceViews(t, v.views[1:])
			requireAnswersOf(t, loads[0], "view0 has gone", fmt.Sprintf("shared a from %s", v.pods[0].Address))
			together("view1", "view2", "view3")
			// It comes back with another server, and then with that of the others.
			back := slices.Clone(v.views)
			back[0].Config = v.to("shared a")
			balancer.ReplaceView(t, "view0", v.to("shared a"))
			balancer.ReplaceViews(t, back)
			together("", "view0")
			together("view1", "view2", "view3")
			requireAnswersOf(t, loads[0], "view0 is back", fmt.Sprintf("shared a from %s", v.pods[0].Address))
			balancer.ReplaceView(t, "view0", v.to("shared b"))
			requireAnswersOf(t, loads[0], "view0 says what the others do", fmt.Sprintf("shared b from %s", v.pods[0].Address))
			together("view0", "view1", "view2", "view3")
		}
		for i, l := range loads {
			var report programs.LoadReport
			l.Finish(t, &report)
			requireClean(t, report)
			for body := range report.Served[0] {
				if 0 < i && i < len(v.views) && body != fmt.Sprintf("shared b from %s", v.pods[i].Address) {
					t.Errorf("pod %d: got %q", i, body)
				}
			}
		}
		if log := balancer.Stderr(); strings.Contains(log, "level=ERROR") {
			t.Errorf("something was refused, or has failed:\n%s", log)
		}
	})
}

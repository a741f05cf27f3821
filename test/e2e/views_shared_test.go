// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// sharedRow is a cluster, or an endpoint, as the admin API lists it.
type sharedRow struct {
	View    string
	Views   []string
	Address string
}

func rowsOf(t *testing.T, b *harness.Balancer, page string) (rows []sharedRow) {
	t.Helper()
	if err := json.Unmarshal([]byte(b.Get(t, page)), &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// equal has all views lead to a server of the shared configuration.
func (v *viewers) equal(suffix string) {
	for i := range v.views {
		v.views[i].Config = v.to("shared" + suffix)
	}
}

// requireFrom has a pod send requests, all of which the server answers.
func requireFrom(t *testing.T, v *viewers, pod int, identity string) {
	t.Helper()
	load := runLoad(t, v.pods[pod].Place, programs.LoadSpec{Address: podService.String(), Requests: 20, Asks: []programs.Ask{{Path: "/from"}}})
	requireEach(t, &load, v.pods[pod].Address, 20, identity)
}

// Views that say the same have one cluster, with each endpoint once. What one of them changes alone is its own, under load; when all say the same again they share it
// again.
func TestEqualViewsShareTheirClusters(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		v := newViewers(t, 4)
		v.equal(" a")
		balancer := v.start(t, mode)
		all := []string{"", "view0", "view1", "view2", "view3"}
		if rows := rowsOf(t, balancer, "/xlb/clusters"); len(rows) != 1 || !slices.Equal(rows[0].Views, all) {
			t.Fatalf("clusters %+v, want one of %q", rows, all)
		}
		if rows := rowsOf(t, balancer, "/xlb/endpoints"); len(rows) != 1 {
			t.Errorf("endpoints %+v, want one", rows)
		}
		for i := range v.pods {
			requireFrom(t, v, i, "shared a")
		}
		loads := v.startLoads(t)

		clusters := func(n int) {
			t.Helper()
			harness.Eventually(t, patience, fmt.Sprintf("%d clusters", n), func() bool { return len(rowsOf(t, balancer, "/xlb/clusters")) == n })
		}
		for range 3 {
			balancer.ReplaceView(t, "view0", v.to("shared b"))
			clusters(2)
			requireFrom(t, v, 0, "shared b")
			requireFrom(t, v, 1, "shared a")
			if shown := balancer.Get(t, "/clusters?view=view0"); strings.Contains(shown, v.servers["shared a"].String()) || !strings.Contains(shown, v.servers["shared b"].String()) {
				t.Errorf("the page of view0 shows others' endpoints:\n%s", shown)
			}
			balancer.ReplaceView(t, "view0", v.to("shared a"))
			clusters(1)
			requireFrom(t, v, 0, "shared a")
		}
		// All change, one after another: each has one of the two, and in the end they share the new one.
		for i := range v.views {
			balancer.ReplaceView(t, v.views[i].Name, v.to("shared b"))
		}
		balancer.Replace(t, v.to("shared b"))
		for i := range v.pods {
			harness.Eventually(t, patience, "requests to the new server", func() bool {
				load := runLoad(t, v.pods[i].Place, programs.LoadSpec{Address: podService.String(), Requests: 5, Asks: []programs.Ask{{Path: "/from"}}})
				requireClean(t, load)
				return load.Served[0][fmt.Sprintf("shared b from %s", v.pods[i].Address)] == 5
			})
		}
		clusters(1)
		for _, l := range loads {
			var report programs.LoadReport
			l.Finish(t, &report)
			requireClean(t, report)
		}
	})
}

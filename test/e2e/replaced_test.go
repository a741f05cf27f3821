// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// A request, or a connection without HTTP, that has found its route when the configuration is replaced goes to an endpoint of the cluster that the route had,
// though the next configuration has no cluster of that name.
func TestAClusterThatIsReplacedByAnotherFailsNoRequest(t *testing.T) {
	t.Run("with HTTP", func(t *testing.T) {
		playReplacedCluster(t, programs.LoadSpec{Connections: 4}, func(l *harness.Listener, cluster string) {
			l.Hosts[0].Routes[0].Clusters = harness.To(cluster)
		})
	})
	t.Run("without HTTP", func(t *testing.T) {
		playReplacedCluster(t, programs.LoadSpec{Connections: 4, OneShot: true}, func(l *harness.Listener, cluster string) {
			l.Hosts, l.TCP = nil, map[string]any{"cluster": cluster}
		})
	})
}

// playReplacedCluster has a listener lead to a cluster of another name with each reload, under that load.
func playReplacedCluster(t *testing.T, spec programs.LoadSpec, lead func(l *harness.Listener, cluster string)) {
	t.Helper()
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		const reloads = 40
		place, service := harness.SameHost(t), harness.Service()
		a, b := place.Origin(t, "a"), place.Origin(t, "b")
		config := func(n int) harness.Config {
			c := harness.OneCluster(service, a.Address, b.Address)
			name := fmt.Sprintf("c%d", n%2)
			lead(&c.Listeners[0], name)
			c.Clusters[0].Name = name
			return c
		}
		balancer := harness.Start(t, mode, config(0), place)
		spec.Address = service.String()
		load := place.Program(t, programs.LoadProgram, spec)
		for n := range reloads {
			awaitRequests(t, load, 30)
			balancer.Reload(t, config(n+1))
		}
		awaitRequests(t, load, 200)
		var final programs.LoadReport
		load.Finish(t, &final)
		t.Logf("%d requests: %v", final.Total, final.Status)
		requireClean(t, final)
	})
}

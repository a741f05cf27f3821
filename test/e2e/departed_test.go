// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// A connection that is open when its listener is removed gets one more answer by the routes that there were, as in Envoy, and closes behind it.
func TestConnectionsOutliveTheirListenerByOneAnswer(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d delivery, start func(harness.Config) *harness.Balancer, place *harness.Place) {
		service, stays := harness.Service(), harness.Service()
		_, servers := origins(t, place, "a")
		w := world{}
		w.put(assignmentType, "shop", assignmentOf("shop", servers[0]))
		w.put(clusterType, "shop", edsCluster(d, "shop", "shop"))
		w.put(listenerType, "web", rdsListener(d, "web", service, "table"))
		w.put(listenerType, "other", rdsListener(d, "other", stays, "table"))
		w.put(routesType, "table", tableOf("table", routeTo("/", "shop", nil)))
		d.deliver(t, w)
		start(harness.Config{Fields: d.fields()})
		// Asks, waits for so long as the removal takes, and asks again.
		client := place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: service.String(), Requests: 2, Pause: 500 * time.Millisecond})
		awaitRequests(t, client, 1)
		delete(w[listenerType], "web")
		d.deliver(t, w)
		var report programs.LoadReport
		client.Next(t, &report)
		if report.Status[http.StatusOK] != 2 || report.Failed > 0 || report.Reconnects != 1 {
			t.Errorf("%v answered, %d connections closed by the balancer, %v; want two answers of 200, the last of which closes", report.Status, report.Reconnects, report.Failures)
		}
	})
}

// A listener gets another address, and other routes there. Connections to the address before are still those of the routes before.
func TestConnectionsToTheAddressBeforeKeepItsRoutes(t *testing.T) {
	forDeliveries(t, func(t *testing.T, d delivery, start func(harness.Config) *harness.Balancer, place *harness.Place) {
		before, after := harness.Service(), harness.Service()
		_, servers := origins(t, place, "a", "b")
		w := world{}
		for i, name := range []string{"shop", "bank"} {
			w.put(assignmentType, name, assignmentOf(name, servers[i]))
			w.put(clusterType, name, edsCluster(d, name, name))
			w.put(routesType, "of-"+name, tableOf("of-"+name, routeTo("/", name, nil)))
		}
		w.put(listenerType, "web", rdsListener(d, "web", before, "of-shop"))
		w.put(listenerType, "bank", rdsListener(d, "bank", harness.Service(), "of-bank"))
		d.deliver(t, w)
		start(harness.Config{Fields: d.fields()})
		client := place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: before.String(), Requests: 2, Pause: time.Second})
		awaitRequests(t, client, 1)
		w.put(listenerType, "web", rdsListener(d, "web", after, "of-bank"))
		d.deliver(t, w)
		harness.Eventually(t, 10*time.Second, "the listener serves at its new address", func() bool {
			return runLoad(t, place, programs.LoadSpec{Address: after.String(), Requests: 1}).Served[0]["b"] == 1
		})
		var report programs.LoadReport
		client.Next(t, &report)
		if report.Served[0]["a"] != 2 || report.Failed > 0 || report.Reconnects != 1 {
			t.Errorf("served by %v, %d connections closed by the balancer, %v; want two answers of a, the last of which closes", report.Served, report.Reconnects, report.Failures)
		}
	})
}

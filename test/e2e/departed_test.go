// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// asker is a client with one connection, which asks when it is told to.
type asker struct {
	puppet *harness.Puppet
	conn   int
	came   []byte
	ended  bool
}

func newAsker(t *testing.T, place *harness.Place, service netip.AddrPort) *asker {
	t.Helper()
	puppet := place.Puppet(t)
	return &asker{puppet: puppet, conn: puppet.Pull(t, programs.Pull{Do: programs.PuppetDial, Address: service.String()}).Conn}
}

// ask demands an answer of 200, and tells whose it is.
func (a *asker) ask(t *testing.T) (server string) {
	t.Helper()
	a.puppet.Pull(t, programs.Pull{Do: programs.PuppetSend, Conn: a.conn, Bytes: []byte(get("/"))})
	harness.Eventually(t, await.Patience, "an answer", func() bool {
		a.look(t)
		response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(a.came)), nil)
		if err == nil {
			_, err = io.ReadAll(response.Body)
			response.Body.Close()
		}
		if err != nil && a.ended {
			t.Fatalf("the connection has ended behind %q", a.came)
		}
		if err != nil {
			return false
		}
		if response.StatusCode != http.StatusOK {
			t.Errorf("answer %d", response.StatusCode)
		}
		a.came, server = nil, response.Header.Get(programs.Identity)
		return true
	})
	return server
}

// requireEnd waits until the balancer has closed the connection.
func (a *asker) requireEnd(t *testing.T) {
	t.Helper()
	harness.Eventually(t, await.Patience, "the connection closes behind its last answer", func() bool {
		if !a.ended {
			a.look(t)
		}
		return a.ended
	})
}

func (a *asker) look(t *testing.T) {
	t.Helper()
	for _, n := range a.puppet.Pull(t, programs.Pull{Do: programs.PuppetLook, Patience: time.Second}).News {
		a.came, a.ended = append(a.came, n.Bytes...), a.ended || n.Ended != ""
	}
}

// awaitDraining waits until a listener of an Envoy drains: it has taken the new one into service a moment before, and an answer on a connection
// of the old one does not close that until then.
func awaitDraining(t *testing.T, b *harness.Balancer) {
	t.Helper()
	if !b.IsEnvoy() {
		return
	}
	harness.Eventually(t, await.Patience, "a listener drains", func() bool {
		return strings.Contains(b.Get(t, "/stats"), "listener_manager.total_listeners_draining: 1\n")
	})
}

// A connection that is open when its listener is removed gets one more answer by the routes that there were, as in Envoy, and closes behind it.
func TestConnectionsOutliveTheirListenerByOneAnswer(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.Beside(t)
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
		b := start(harness.Config{Fields: d.fields(), Drain: time.Minute})
		client := newAsker(t, place, service)
		client.ask(t)
		delete(w[listenerType], "web")
		d.deliver(t, w)
		harness.Eventually(t, await.Patience, "nobody serves new connections", func() bool {
			return runExchange(t, place, service, await.Patience).Error != ""
		})
		awaitDraining(t, b)
		client.ask(t)
		client.requireEnd(t)
	})
}

// A listener gets another address, and other routes there. Connections to the address before are still those of the routes before.
func TestConnectionsToTheAddressBeforeKeepItsRoutes(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.Beside(t)
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
		b := start(harness.Config{Fields: d.fields(), Drain: time.Minute})
		client := newAsker(t, place, before)
		if got := client.ask(t); got != "a" {
			t.Errorf("before the change: served by %s, want a", got)
		}
		w.put(listenerType, "web", rdsListener(d, "web", after, "of-bank"))
		d.deliver(t, w)
		harness.Eventually(t, await.Patience, "the listener serves at its new address", func() bool {
			return runLoad(t, place, programs.LoadSpec{Address: after.String(), Requests: 1}).Served[0]["b"] == 1
		})
		awaitDraining(t, b)
		if got := client.ask(t); got != "a" {
			t.Errorf("served by %s, want a", got)
		}
		client.requireEnd(t)
	})
}

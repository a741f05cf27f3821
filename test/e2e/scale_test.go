// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// crowd is a balancer of very many endpoints, all of which are one server.
type crowd struct {
	t        *testing.T
	place    *harness.Place
	server   *harness.Origin
	service  netip.AddrPort
	config   harness.Config
	balancer *harness.Balancer
}

func newCrowd(t *testing.T) *crowd {
	c := &crowd{t: t, place: harness.SameHost(t), service: harness.Service()}
	// It has every loopback address.
	c.server = c.place.OriginAt(t, "one", netip.MustParseAddrPort("0.0.0.0:0"))
	return c
}

// endpoints are so many of the server's addresses, from one on.
func (c *crowd) endpoints(first, n int) (list []netip.AddrPort) {
	for i := first; i < first+n; i++ {
		list = append(list, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 100, byte(i >> 8), byte(i)}), c.server.Address.Port()))
	}
	return list
}

func (c *crowd) start(mode harness.Mode, config harness.Config) {
	c.t.Helper()
	c.config, c.balancer = config, harness.Start(c.t, mode, config, c.place)
	if got := c.connections(); got != 0 {
		c.t.Errorf("connections before the first request: got %d, want none", got)
	}
	c.tell("at start")
}

// connections counts those to endpoints.
func (c *crowd) connections() int {
	return int(c.balancer.Metric(c.t, "envoy_cluster_upstream_cx_active"))
}

func (c *crowd) tell(when string) {
	c.t.Helper()
	const mb = 1 << 20
	b := c.balancer
	c.t.Logf("%s: %d connections; the daemon has %d MB, %d of its own; the maps have %d MB",
		when, c.connections(), b.Memory(c.t)/mb, b.OwnMemory(c.t)/mb, b.MapMemory(c.t)/mb)
}

// ask sends so many requests in all.
func (c *crowd) ask(requests int, asks ...programs.Ask) {
	c.t.Helper()
	load := runLoad(c.t, c.place, programs.LoadSpec{Address: c.service.String(), Connections: 8, Requests: requests / 8, Asks: asks})
	requireClean(c.t, load)
	c.tell(fmt.Sprintf("after %d requests", requests))
}

var inForce = regexp.MustCompile(`configuration is in force.*writes"?[=:](\d+)`)

// reload replaces the configuration, and returns how much that wrote.
func (c *crowd) reload() int {
	c.t.Helper()
	said := func() [][]string { return inForce.FindAllStringSubmatch(c.balancer.Stderr(), -1) }
	before := len(said())
	c.balancer.Reload(c.t, c.config)
	harness.Eventually(c.t, 20*time.Second, "the daemon says what it wrote", func() bool { return len(said()) > before })
	n, err := strconv.Atoi(said()[before][1])
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// A cluster of thousands must not begin with a storm of connections, nor keep one for each endpoint that was asked once. An endpoint more or less
// is not a reason to write about the others.
func TestTenThousandEndpointsAreConnectedToWhenTheyAreAsked(t *testing.T) {
	suite.Long(t, suite.Machine)
	const endpoints, requests = 10_000, 3000
	harness.OnlyXLB(t, "the test looks into XLB")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		c := newCrowd(t)
		addresses := c.endpoints(0, endpoints)
		c.start(mode, harness.OneCluster(c.service, addresses...))
		c.ask(requests)
		if got := c.connections(); got > 2*requests {
			t.Errorf("connections after %d requests: got %d, want no more than two for each", requests, got)
		}
		for _, change := range []struct {
			name      string
			endpoints []netip.AddrPort
		}{
			{"one less", addresses[1:]}, {"one more", addresses}, {"another", append(c.endpoints(endpoints, 1), addresses[1:]...)},
		} {
			c.config.Clusters[0].Endpoints = change.endpoints
			if got := c.reload(); got > 5 {
				t.Errorf("%s: %d writes, want 5 at most", change.name, got)
			}
			c.ask(400)
		}
	})
}

// A thousand clusters cost what their endpoints do, and only those that are asked have connections.
func TestAThousandClustersAreConnectedToWhenTheyAreAsked(t *testing.T) {
	suite.Long(t, suite.Machine)
	const clusters, each, asked, requests = 1000, 10, 3, 3000
	harness.OnlyXLB(t, "the test looks into XLB")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		c := newCrowd(t)
		config := harness.Config{Listeners: []harness.Listener{{Address: c.service, Hosts: []harness.VirtualHost{{}}}}}
		for i := range clusters {
			name := fmt.Sprintf("c%d", i)
			config.Clusters = append(config.Clusters, harness.Cluster{Name: name, Endpoints: c.endpoints(i*each, each)})
			host := &config.Listeners[0].Hosts[0]
			host.Routes = append(host.Routes, harness.Route{Path: "/" + name, Clusters: harness.To(name)})
		}
		c.start(mode, config)
		var asks []programs.Ask
		for i := range asked {
			asks = append(asks, programs.Ask{Path: fmt.Sprintf("/c%d", i*clusters/asked)})
		}
		c.ask(requests, asks...)
		// Each of these endpoints may have as many as connections ask it at once, and as many again that are opened ahead.
		if got, most := c.connections(), asked*each*2*8; got > most {
			t.Errorf("connections to %d endpoints of %d clusters: got %d, want at most %d", asked*each, asked, got, most)
		}
		c.config.Clusters[500].Endpoints = c.endpoints(500*each, each-1)
		if got := c.reload(); got > each+3 {
			t.Errorf("one endpoint less: %d writes, want %d at most", got, each+3)
		}
		c.ask(400, asks...)
	})
}

// Turns of many endpoints are exchanged in place when a few of them change; each still has one in every cycle, as with Envoy.
func TestManyEndpointsHaveTheirTurnsAfterOneHasChanged(t *testing.T) {
	suite.Long(t, suite.Machine)
	const endpoints, cycles = 200, 2
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		c := newCrowd(t)
		addresses := c.endpoints(0, endpoints+3)
		c.config = harness.OneCluster(c.service, addresses[:endpoints]...)
		c.balancer = harness.Start(t, mode, c.config, c.place)
		c.requireEven("at first", cycles)
		for i := range 3 {
			// One leaves from the middle, another comes.
			list := append(slices.Delete(slices.Clone(addresses[:endpoints]), 50, 51+i), addresses[endpoints:endpoints+i+1]...)
			c.config.Clusters[0].Endpoints = list
			c.balancer.Reload(t, c.config)
			newest := list[len(list)-1].String()
			harness.Eventually(t, patience, "the newest endpoint is there", func() bool {
				_, is := c.balancer.EndpointRequests(t)[newest]
				return is
			})
			// Its first request may find no connection, and takes another turn then.
			requireClean(t, runLoad(t, c.place, programs.LoadSpec{Address: c.service.String(), Requests: len(list)}))
			c.requireEven(fmt.Sprintf("after %d changes", i+1), cycles)
		}
	})
}

// requireEven sends requests one after the other for whole cycles. An endpoint may have one more or less at their ends.
func (c *crowd) requireEven(when string, cycles int) {
	c.t.Helper()
	list := c.config.Clusters[0].Endpoints
	before := c.balancer.EndpointRequests(c.t)
	requireClean(c.t, runLoad(c.t, c.place, programs.LoadSpec{Address: c.service.String(), Requests: cycles * len(list)}))
	after := c.balancer.EndpointRequests(c.t)
	uneven := 0
	for _, a := range list {
		got := after[a.String()] - before[a.String()]
		if got < cycles-1 || got > cycles+1 {
			c.t.Errorf("%s: %s got %d requests in %d cycles", when, a, got, cycles)
		}
		if got != cycles {
			uneven++
		}
	}
	if uneven > len(list)/20 {
		c.t.Errorf("%s: %d of %d endpoints did not get their share", when, uneven, len(list))
	}
}

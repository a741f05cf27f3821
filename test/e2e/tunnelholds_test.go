// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/hostile/traffic"
	"github.com/xlb-project/xlb/test/suite"
)

const upgradeRequest = "GET " + traffic.Prefix + " HTTP/1.1\r\nHost: e2e.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

// A tunnel through which nothing moves ends when the time of its stream is up, also where the daemon has had to read the endpoint's answer
// because its head came in pieces: two that say nothing must not hold an i-sock for ever.
func TestTunnelThroughWhichNothingMovesEnds(t *testing.T) {
	suite.Long(t, suite.Clock)
	heads := map[string][]string{
		"head in one piece":  {"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"},
		"head in two pieces": {"HTTP/1.1 101 Switching", " Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"},
	}
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
		service, server, client := harness.Service(), servers.Puppet(t), clients.Puppet(t)
		config := tunnelsTo(service, server.Address)
		config.Listeners[0].Manager = fields{"stream_idle_timeout": "0.5s"}
		balancer := harness.Start(t, mode, config, clients)
		there, here := newEar(t, server), newEar(t, client)
		for name, head := range heads {
			conn := dialService(t, client, service.String())
			say(t, client, conn, upgradeRequest)
			harness.Eventually(t, patience, "the request", func() bool { there.listen(10 * time.Millisecond); return there.waits() != 0 })
			end := there.waits()
			for _, part := range head {
				say(t, server, end, part)
			}
			here.hear("\r\n\r\n")
			harness.Eventually(t, patience, name+": the endpoint is told of the end", func() bool {
				there.listen(10 * time.Millisecond)
				return strings.Contains(there.got[end], "<")
			})
			harness.Eventually(t, patience, name+": no lease is left", func() bool { return balancer.Metric(t, "xlb_leases_active") == 0 })
			clear(here.got)
		}
	})
}

// waits returns a connection that has received a request's head, and has not ended.
func (e *ear) waits() int {
	for conn, got := range e.got {
		if strings.HasSuffix(got, "\r\n\r\n") {
			return conn
		}
	}
	return 0
}

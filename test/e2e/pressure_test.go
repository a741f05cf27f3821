// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// A few clients that read nothing can have all TCP of the machine under pressure. The kernel refuses memory then to sockets with more than their share, and
// serves those with less; near its limit it refuses all, and a member of a socket map that it has told to wait would wait for ever.
func TestPressureOnTCPLeavesSmallExchangesInTheKernel(t *testing.T) {
	suite.Long(t, suite.Machine)
	harness.OnlyXLB(t, "it is about what the kernel serves")
	const size, unread, connections, requests = 100 << 20, 50, 4, 500
	for _, topology := range topologies {
		t.Run(topology.name, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				place, servers := topology.places(t)
				balancer, server, service := oneServerWithoutTimeout(t, mode, place, servers)
				send := func() {
					t.Helper()
					requireClean(t, runLoad(t, place, programs.LoadSpec{Address: service, Connections: connections, Requests: requests}))
				}
				send()
				park(t, place, service, size, unread)
				blocked(t, server)
				used := harness.TCPMemory(t) / int64(os.Getpagesize())

				relax := squeeze(t, place, 4*used)
				before := balancer.ServedSoFar(t)
				send()
				balancer.RequireFastSince(t, mode, before, 0.95)
				relax()

				relax = squeeze(t, place, used+used/3)
				fast, _ := balancer.Served(t)
				send()
				if now, _ := balancer.Served(t); now-fast > connections*requests/20 {
					t.Errorf("the kernel has served %v of %d requests where the next may find no memory", now-fast, connections*requests)
				}
				relax()
			})
		})
	}
}

// squeeze has TCP of the whole machine under pressure, which has so many pages at most, until the test calls what it returns.
func squeeze(t *testing.T, place *harness.Place, limit int64) (relax func()) {
	t.Helper()
	setting := place.Program(t, programs.SettingProgram, programs.SettingSpec{Path: "/proc/sys/net/ipv4/tcp_mem", Value: fmt.Sprintf("1 2 %d", limit)})
	var in programs.SettingSpec
	setting.Next(t, &in)
	return func() { setting.Output(t, 10*time.Second) }
}

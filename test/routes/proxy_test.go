// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/test/envoytest"
	"github.com/xlb-project/xlb/test/proxytest"
)

// startProxy serves each listener of the configuration with the slow path, at an address of its own.
func startProxy(t testing.TB, cfg *model.Config) *peer {
	t.Helper()
	addresses := proxytest.Start(t, cfg, balancer{cfg})
	return &peer{addresses: addresses, conns: make([]*envoytest.Conn, len(addresses))}
}

// balancer takes the first endpoint of a cluster.
type balancer struct{ cfg *model.Config }

type picked netip.AddrPort

func (p picked) Address() netip.AddrPort { return netip.AddrPort(p) }

func (picked) Done(slowpath.Outcome) {}

func (b balancer) Pick(cluster *model.Cluster, _ model.Metadata, _ uint64, skip func(netip.AddrPort) bool) (slowpath.ChosenEndpoint, bool) {
	for _, e := range cluster.Endpoints {
		if !skip(e.Address) {
			return picked(e.Address), true
		}
	}
	return nil, false
}

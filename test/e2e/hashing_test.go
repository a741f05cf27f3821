// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/hashing"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// byKey is a table that sends everything to a cluster, by the hash of a header.
func byKey(cluster string) map[string]any {
	return map[string]any{"name": "hashed", "virtual_hosts": []any{map[string]any{
		"name": "all", "domains": []any{"*"}, "routes": []any{map[string]any{
			"match": map[string]any{"prefix": "/"},
			"route": map[string]any{
				"cluster": cluster, "hash_policy": []any{map[string]any{"header": map[string]any{"header_name": "x-key"}}},
			},
		}},
	}}}
}

// hosts are the endpoints as their cluster's table has them.
func hosts(endpoints []netip.AddrPort) []hashing.Host {
	list := make([]hashing.Host, len(endpoints))
	for i, e := range endpoints {
		list[i] = hashing.Host{Key: e.String(), Share: 1 / float64(len(endpoints))}
	}
	return list
}

var hashPolicies = []struct {
	policy string
	table  func([]hashing.Host) hashing.Table
}{
	{"RING_HASH", func(h []hashing.Host) hashing.Table { return hashing.NewRing(h, hashing.DefaultRingSize, false) }},
	{"MAGLEV", func(h []hashing.Host) hashing.Table { return hashing.NewMaglev(h, hashing.DefaultMaglevSize) }},
}

// Each key comes to the server that its table names, before and after a server has left; test/hashing compares the tables with Envoy.
func TestKeysComeToTheirServers(t *testing.T) {
	for _, p := range hashPolicies {
		t.Run(p.policy, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				const servers, gone = 5, 2
				place, service := harness.SameHost(t), harness.Service()
				names := harness.Identities(servers)
				_, addresses := origins(t, place, names...)
				config := harness.OneCluster(service, addresses...)
				config.Clusters[0].Policy = p.policy
				config.Listeners[0].Table = byKey(config.Clusters[0].Name)
				b := harness.Start(t, mode, config, place)
				requireKeys(t, place, service, p.table(hosts(addresses)), names)
				b.RequireFast(t, mode, 0.99)

				rest, restNames := slices.Delete(slices.Clone(addresses), gone, gone+1), slices.Delete(slices.Clone(names), gone, gone+1)
				config.Clusters[0].Endpoints = rest
				b.Reload(t, config)
				harness.Eventually(t, patience, "the server has left", func() bool {
					_, is := b.EndpointRequests(t)[addresses[gone].String()]
					return !is
				})
				requireKeys(t, place, service, p.table(hosts(rest)), restNames)
			})
		})
	}
}

// requireKeys sends a few hundred keys over one connection.
func requireKeys(t *testing.T, place *harness.Place, service netip.AddrPort, table hashing.Table, names []string) {
	t.Helper()
	const keys = 300
	var steps []programs.Step
	var want []string
	for i := range keys {
		key := fmt.Sprintf("key-%d", i)
		request := "GET / HTTP/1.1\r\nHost: a\r\nX-Key: " + key + "\r\n\r\n"
		steps = append(steps, programs.Step{Send: request}, programs.Step{Receive: true})
		want = append(want, names[table.Pick(hashing.Sum(key), 0)])
	}
	report := runExchange(t, place, service, 30*time.Second, steps...)
	if report.Error != "" || len(report.Replies) != keys {
		t.Fatalf("%d of %d replies: %s", len(report.Replies), keys, report.Error)
	}
	for i, r := range report.Replies {
		if r.Identity != want[i] {
			t.Fatalf("key-%d: answered by %s, want %s", i, r.Identity, want[i])
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"maps"
	"slices"
	"sync"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// Two incremental streams: the second begins with what is known.
func TestDelta(t *testing.T) {
	seen := make(chan struct{})
	server := play(t, func(d *dialogue) {
		a := d.next(Clusters)
		d.expect(a.node.GetId() == "test" && len(a.subscribe)+len(a.known) == 0, "all clusters are asked for", a)
		d.next(Listeners)
		d.part(Clusters, "1", "c1", nil, cluster("a", 1), cluster("b", 1), static("s", 1))
		a = d.next(Clusters)
		d.expect(a.nonce == "c1" && a.fault == "" && len(a.subscribe) == 0, "clusters are accepted", a)
		a = d.next(Assignments)
		d.expect(a.nonce == "" && slices.Equal(a.subscribe, []string{"a", "b"}) && len(a.unsubscribe) == 0, "assignments are asked for", a)
		d.part(Assignments, "1", "e1", []string{"b"}, assignment("a", 1), assignment("stranger", 1))
		a = d.next(Assignments)
		d.expect(a.nonce == "e1" && a.fault == "", "accepted", a)
		d.part(Listeners, "1", "l1", nil, listener("l", 1, "r"))
		d.next(Listeners)
		a = d.next(Routes)
		d.expect(slices.Equal(a.subscribe, []string{"r"}), "routes are asked for", a)
		d.part(Routes, "1", "r1", nil, routes("r", 1))
		d.next(Routes)

		// States that follow each other closely may come as one.
		<-seen
		// Part of the clusters changes, one goes, one is refused.
		d.part(Clusters, "2", "c2", []string{"b", "unknown"}, cluster("a", 2, "other"), static("s", -2), static("new", 2))
		a = d.next(Clusters)
		d.expect(a.nonce == "c2" && a.fault == "s: is bad", "refused by name", a)
		a = d.next(Assignments)
		d.expect(slices.Equal(a.subscribe, []string{"other"}) && slices.Equal(a.unsubscribe, []string{"b"}) && a.nonce == "", "names change", a)
		d.part(Assignments, "2", "e2", nil, assignment("other", 2))
		a = d.next(Assignments)
		d.expect(a.nonce == "e2", "accepted", a)
		a = d.next(Assignments)
		d.expect(slices.Equal(a.unsubscribe, []string{"a"}) && len(a.subscribe) == 0, "the old one is no longer needed", a)
	}, func(d *dialogue) {
		a := d.next(Clusters)
		d.expect(len(a.subscribe) == 0 && maps.Equal(a.known, map[string]string{"a": "2", "s": "1", "new": "2"}) && a.node != nil, "known clusters", a)
		a = d.next(Assignments)
		d.expect(slices.Equal(a.subscribe, []string{"other"}) && maps.Equal(a.known, map[string]string{"other": "2"}), "known assignments", a)
		a = d.next(Listeners)
		d.expect(maps.Equal(a.known, map[string]string{"l": "1"}), "known listeners", a)
		a = d.next(Routes)
		d.expect(maps.Equal(a.known, map[string]string{"r": "1"}) && a.nonce == "", "known routes", a)
		d.part(Clusters, "3", "1", []string{"s"}, static("new", 3))
		d.stay()
	})
	goOn := sync.OnceFunc(func() { close(seen) })
	t.Cleanup(goOn)
	o := observe(t, Config{Servers: []Server{server}, Delta: true})
	// Cluster b has no endpoints.
	first := "clusters a=1 b=1 s=1; assignments a=1; listeners l=1; routes r=1"
	o.await(first)
	goOn()
	o.await("clusters a=2 new=3; assignments other=2; listeners l=1; routes r=1")
	if states, _ := o.seen(); states[0] != first {
		t.Errorf("first state %q, want %q", states[0], first)
	}
}

// What makes a whole response unfit changes nothing.
func TestDeltaUnfit(t *testing.T) {
	other := named(static("a", 2), "2", 0)
	other.Resource = packed(listener("a", 2))
	misnamed := named(static("a", 2), "2", 0)
	misnamed.Name = "c"
	cases := []struct {
		name      string
		resources []*discoveryv3.Resource
		removed   []string
		reason    string
	}{
		{"another type", []*discoveryv3.Resource{other}, nil, `resource "a" is of type "type.googleapis.com/envoy.config.listener.v3.Listener" in a response of type "type.googleapis.com/envoy.config.cluster.v3.Cluster"`},
		{"a name twice", []*discoveryv3.Resource{named(static("a", 2), "2", 0), named(static("a", 3), "2", 0)}, nil, `resource "a" is named more than once`},
		{"sent and removed", []*discoveryv3.Resource{named(static("a", 2), "2", 0)}, []string{"a"}, `resource "a" is named more than once`},
		{"removed twice", nil, []string{"a", "a"}, `resource "a" is named more than once`},
		{"no name", []*discoveryv3.Resource{{Resource: packed(static("a", 2))}}, nil, "resource 0 has no name"},
		{"two names", []*discoveryv3.Resource{misnamed}, nil, `c: its body has the name "a"`},
		{"heartbeat of another version", []*discoveryv3.Resource{{Name: "a", Version: "7"}}, nil, `a: heartbeat of version "7", which is not in force`},
	}
	server := play(t, func(d *dialogue) {
		d.next(Clusters)
		d.part(Listeners, "1", "l1", nil)
		d.part(Clusters, "1", "c1", nil, static("a", 1), static("b", 1))
		d.next(Clusters)
		for _, c := range cases {
			d.send(&discoveryv3.DeltaDiscoveryResponse{
				TypeUrl: Clusters.TypeURL(), SystemVersionInfo: c.name, Nonce: c.name, Resources: c.resources, RemovedResources: c.removed,
			})
			a := d.next(Clusters)
			d.expect(a.fault == c.reason && a.nonce == c.name, c.name, a)
		}
		// What aliases lead to nothing does not exist.
		d.send(&discoveryv3.DeltaDiscoveryResponse{
			TypeUrl: Clusters.TypeURL(), Nonce: "c2", Resources: []*discoveryv3.Resource{{Name: "b", Aliases: []string{"b"}}},
		})
		a := d.next(Clusters)
		d.expect(a.fault == "" && a.nonce == "c2", "accepted", a)
		d.stay()
	})
	o := observe(t, Config{Servers: []Server{server}, Delta: true})
	o.await("clusters a=1")
}

// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"slices"
	"sync"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// One stream of the state of the world, in the order in which a server that means well sends it.
func TestWholeState(t *testing.T) {
	seen := make(chan struct{})
	server := play(t, func(d *dialogue) {
		first := d.next(Clusters)
		d.expect(first.node.GetId() == "test" && len(first.node.ClientFeatures) == 2, "the first request names the node and its features", first)
		d.expect(first.version == "" && first.nonce == "" && len(first.names) == 0, "the first request asks for all clusters", first)
		second := d.next(Listeners)
		d.expect(second.node == nil && len(second.names) == 0, "the second asks for all listeners, without the node", second)

		d.whole(Clusters, "1", "c1", cluster("a", 1), cluster("b", 1, "service"), static("s", 1))
		a := d.next(Clusters)
		d.expect(a.version == "1" && a.nonce == "c1" && a.fault == "", "clusters are accepted", a)
		a = d.next(Assignments)
		d.expect(slices.Equal(a.names, []string{"a", "service"}) && a.nonce == "" && a.version == "", "assignments are asked for by service", a)
		d.whole(Assignments, "1", "e1", assignment("a", 1))
		a = d.next(Assignments)
		d.expect(a.version == "1" && a.nonce == "e1" && len(a.names) == 2, "a part of the assignments is accepted", a)
		d.whole(Assignments, "1", "e2", assignment("service", 1), assignment("stranger", 1))
		a = d.next(Assignments)
		d.expect(a.nonce == "e2" && a.fault == "", "the rest is accepted, and what nobody asked for", a)

		d.whole(Listeners, "1", "l1", listener("l", 1, "r", "q"))
		a = d.next(Listeners)
		d.expect(a.version == "1" && a.nonce == "l1", "listeners are accepted", a)
		a = d.next(Routes)
		d.expect(slices.Equal(a.names, []string{"q", "r"}), "routes are asked for", a)
		d.whole(Routes, "1", "r1", routes("r", 1), routes("q", 1))
		d.next(Routes)

		// States that follow each other closely may come as one.
		<-seen
		// A response without assignments removes none; one without clusters removes all.
		d.whole(Assignments, "2", "e3")
		a = d.next(Assignments)
		d.expect(a.version == "2", "an empty response is accepted", a)
		d.whole(Clusters, "2", "c2", cluster("a", 2))
		d.next(Clusters)
		a = d.next(Assignments)
		d.expect(slices.Equal(a.names, []string{"a"}) && a.nonce == "e3" && a.version == "2", "fewer names with the newest nonce", a)
		d.stay()
	})
	goOn := sync.OnceFunc(func() { close(seen) })
	t.Cleanup(goOn)
	o := observe(t, Config{Servers: []Server{server}})
	first := "clusters a=1 b=1 s=1; assignments a=1 service=1; listeners l=1; routes q=1 r=1"
	o.await(first)
	goOn()
	o.await("clusters a=2; assignments a=1; listeners l=1; routes q=1 r=1")
	if states, _ := o.seen(); states[0] != first {
		t.Errorf("first state %q, want %q", states[0], first)
	}
}

// A refused resource keeps what it was; the good ones of its response are taken.
func TestWholeRefusal(t *testing.T) {
	server := play(t, func(d *dialogue) {
		d.next(Clusters)
		d.next(Listeners)
		d.whole(Listeners, "1", "l1")
		d.whole(Clusters, "1", "c1", static("a", 1), static("b", 1), static("gone", 1))
		d.next(Clusters)
		d.whole(Clusters, "2", "c2", static("a", -2), static("b", 2), static("new", -1))
		a := d.next(Clusters)
		d.expect(a.version == "1" && a.nonce == "c2" && a.fault == "a: is bad; new: is bad" && a.code == 3, "refused by name and reason", a)
		d.whole(Clusters, "3", "c3", static("a", 3), static("b", 2))
		a = d.next(Clusters)
		d.expect(a.version == "3" && a.fault == "", "mended", a)
		d.stay()
	})
	o := observe(t, Config{Servers: []Server{server}})
	o.await("clusters a=3 b=2")
	states, _ := o.seen()
	for _, state := range states { // those between may have been merged
		if state != "clusters a=1 b=1 gone=1" && state != "clusters a=1 b=2" && state != "clusters a=3 b=2" {
			t.Errorf("state %q", state)
		}
	}
}

// What makes a whole response unfit changes nothing.
func TestWholeUnfit(t *testing.T) {
	good := packed(static("a", 2))
	cut := packed(static("abcdef", 2))
	cut.Value = cut.Value[:4]
	wrapped := &anypb.Any{TypeUrl: wrapperURL, Value: []byte{0x0a, 0x7f}}
	cases := []struct {
		name      string
		resources []*anypb.Any
		reason    string
	}{
		{"another type", bodies(listener("a", 2)), `resource "a" is of type "type.googleapis.com/envoy.config.listener.v3.Listener" in a response of type "type.googleapis.com/envoy.config.cluster.v3.Cluster"`},
		{"a name twice", []*anypb.Any{good, packed(static("a", 3))}, `resource "a" is named more than once`},
		{"no name", bodies(static("a", 2), static("", 2)), "resource 1 has no name"},
		{"cut", []*anypb.Any{good, cut}, "resource 1: read its body: unexpected EOF"},
		{"cut wrapper", []*anypb.Any{wrapped}, "resource 0: read its wrapper: proto: cannot parse invalid wire-format data"},
		{"nothing", []*anypb.Any{{}}, `resource "" is of type "" in a response of type "type.googleapis.com/envoy.config.cluster.v3.Cluster"`},
	}
	server := play(t, func(d *dialogue) {
		d.next(Clusters)
		d.whole(Listeners, "1", "l1")
		d.whole(Clusters, "1", "c1", static("a", 1), static("b", 1))
		d.next(Clusters)
		for _, c := range cases {
			d.send(&discoveryv3.DiscoveryResponse{TypeUrl: Clusters.TypeURL(), VersionInfo: c.name, Nonce: c.name, Resources: c.resources})
			a := d.next(Clusters)
			d.expect(normal(a.fault) == c.reason && a.version == "1" && a.nonce == c.name, c.name, a)
		}
		d.send(&discoveryv3.DiscoveryResponse{TypeUrl: "type.googleapis.com/x.Y", VersionInfo: "1", Nonce: "n"})
		a := d.nextOf("type.googleapis.com/x.Y")
		d.expect(a.nonce == "n" && a.fault == `type "type.googleapis.com/x.Y" is not supported`, "unknown type", a)
		// Assignments were not asked for: nothing is said about them.
		d.whole(Assignments, "1", "e1", assignment("a", 1))
		d.none(Assignments)
		d.whole(Clusters, "2", "c2", static("a", 2), static("b", 1))
		d.next(Clusters)
		d.stay()
	})
	o := observe(t, Config{Servers: []Server{server}})
	o.await("clusters a=2 b=1")
	if states, _ := o.seen(); len(states) != 2 {
		t.Errorf("states %q, want two", states)
	}
	if k := o.Status().Kinds[Clusters]; k.Attempts != 8 || k.Successes != 2 || k.Rejected != 6 || k.Version != "2" || k.Error != "" {
		t.Errorf("status %+v", k)
	}
}

// normal mends what protobuf makes unstable on purpose in its errors.
func normal(s string) string {
	b := []byte{}
	for _, r := range s {
		if r == '\u00a0' {
			r = ' '
		}
		b = append(b, string(r)...)
	}
	return string(b)
}

// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	controlplane "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// mortal sends resources that have a time to live, in the stream's form. Those without a body are heartbeats.
func (d *dialogue) mortal(kind Kind, version, nonce string, resources ...*discoveryv3.Resource) {
	if d.delta {
		d.send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: kind.TypeURL(), SystemVersionInfo: version, Nonce: nonce, Resources: resources})
		return
	}
	m := &discoveryv3.DiscoveryResponse{TypeUrl: kind.TypeURL(), VersionInfo: version, Nonce: nonce}
	for _, r := range resources {
		m.Resources = append(m.Resources, packed(r))
	}
	d.send(m)
}

func heartbeat(name, version string, ttl time.Duration) *discoveryv3.Resource {
	return &discoveryv3.Resource{Name: name, Version: version, Ttl: durationpb.New(ttl)}
}

// What has a time to live ends when it passes, also after the server has gone; heartbeats prolong it, and end nothing else.
func TestTimeToLive(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		const short, long = time.Second, time.Hour
		server := play(t, func(d *dialogue) {
			d.next(Clusters)
			d.mortal(Clusters, "1", "1",
				named(cluster("a", 1), "1", 0), named(cluster("b", 1), "1", short), named(static("c", 1), "1", short), named(static("d", 1), "1", short))
			d.mortal(Listeners, "1", "1")
			d.next(Assignments)
			d.mortal(Assignments, "1", "1", named(assignment("a", 1), "1", short), named(assignment("b", 1), "1", 0))
			d.next(Assignments)
			d.next(Clusters)
			d.mortal(Clusters, "1", "2", heartbeat("c", "1", long))
			a := d.next(Clusters)
			d.expect(a.fault == "" && a.nonce == "2", "heartbeat accepted", a)
			// Sent again without a time to live, it has none.
			if d.delta {
				d.part(Clusters, "1", "3", nil, static("d", 1))
			} else {
				d.mortal(Clusters, "1", "3", named(cluster("a", 1), "1", 0), named(cluster("b", 1), "1", short), heartbeat("c", "1", long), named(static("d", 1), "1", 0))
			}
			a = d.next(Clusters)
			d.expect(a.fault == "", "accepted", a)
		}, func(d *dialogue) { d.stay() })
		o := observe(t, Config{Servers: []Server{server}, Delta: delta})
		o.await("clusters a=1 c=1 d=1")
		states, _ := o.seen()
		if want := "clusters a=1 b=1 c=1 d=1; assignments a=1 b=1"; states[0] != want {
			t.Errorf("first state %q, want %q", states[0], want)
		}
	})
}

// What was refused goes with what was in force: when that ends, nothing is there any more.
func TestRefusedEndsWithTheTimeToLive(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		server := play(t, func(d *dialogue) {
			d.next(Clusters)
			d.give(Clusters, "1", "1", static("a", 1))
			d.give(Listeners, "1", "1", listener("l", 1, "r"))
			d.next(Routes)
			d.mortal(Routes, "1", "1", named(routes("r", 1), "1", time.Second))
			d.next(Routes)
			d.give(Routes, "2", "2", routes("r", -1))
			a := d.next(Routes)
			d.expect(a.fault == "r: is bad", "refused", a)
			d.stay()
		})
		o := observe(t, Config{Servers: []Server{server}, Delta: delta})
		o.await("clusters a=1; listeners l=1")
		r := o.Status().Kinds[Routes].Resources[0]
		if r.State != DoesNotExist || r.Error != "" || r.FailedVersion != "" || r.FailedBody != nil || r.Body != nil {
			t.Errorf("status %+v", r)
		}
	})
}

// go-control-plane's own heartbeats keep what has a time to live.
func TestHeartbeatsOfControlPlane(t *testing.T) {
	t.Parallel()
	c := cache.NewSnapshotCacheWithHeartbeating(t.Context(), true, cache.IDHash{}, nil, 100*time.Millisecond)
	ttl := 2 * time.Second
	with := func(ttl *time.Duration, m proto.Message) types.ResourceWithTTL {
		return types.ResourceWithTTL{Resource: m, TTL: ttl}
	}
	s, err := cache.NewSnapshotWithTTLs("1", map[resource.Type][]types.ResourceWithTTL{
		resource.ClusterType:  {with(&ttl, cluster("a", 1)), with(nil, static("b", 1))},
		resource.EndpointType: {with(&ttl, assignment("a", 1))},
		resource.ListenerType: {with(nil, listener("l", 1))},
	})
	if err == nil {
		err = c.SetSnapshot(t.Context(), "test", s)
	}
	if err != nil {
		t.Fatal(err)
	}
	o := observe(t, Config{Servers: []Server{serve(t, controlplane.NewServer(t.Context(), c, nil))}})
	o.await("clusters a=1 b=1; assignments a=1; listeners l=1")
	time.Sleep(2 * ttl)
	s2 := o.awaitStatus("heartbeats", func(s Status) bool { return s.Kinds[Clusters].Successes > 10 })
	if states, _ := o.seen(); len(states) != 1 || s2.Kinds[Clusters].Rejected+s2.Kinds[Assignments].Rejected != 0 {
		t.Errorf("states %q, status %+v", states, s2.Kinds)
	}
}

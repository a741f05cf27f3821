// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/sotw/v3"
	controlplane "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/protobuf/proto"
)

// forms are the two forms of the protocol.
var forms = map[string]bool{"whole": false, "delta": true}

// control is go-control-plane's own server.
type control struct {
	t     *testing.T
	cache cache.SnapshotCache
	Server
	requests atomic.Int64
}

// newControl runs a server. ordered is its mode for aggregated streams, which sends nothing of a kind that does not fit what is asked for.
func newControl(t *testing.T, ordered bool) *control {
	c := &control{t: t, cache: cache.NewSnapshotCache(ordered, cache.IDHash{}, nil)}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	callbacks := controlplane.CallbackFuncs{
		StreamRequestFunc:      func(int64, *discoveryv3.DiscoveryRequest) error { c.requests.Add(1); return nil },
		StreamDeltaRequestFunc: func(int64, *discoveryv3.DeltaDiscoveryRequest) error { c.requests.Add(1); return nil },
	}
	if ordered {
		c.Server = serve(t, controlplane.NewServer(ctx, c.cache, callbacks, sotw.WithOrderedADS()))
	} else {
		c.Server = serve(t, controlplane.NewServer(ctx, c.cache, callbacks))
	}
	return c
}

// set makes the server have these resources.
func (c *control) set(version string, resources ...proto.Message) {
	c.t.Helper()
	byType := map[resource.Type][]types.Resource{}
	for _, r := range resources {
		url := packed(r).TypeUrl
		byType[url] = append(byType[url], r)
	}
	s, err := cache.NewSnapshot(version, byType)
	if err == nil {
		err = c.cache.SetSnapshot(c.t.Context(), "test", s)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// Each step of a configuration's life, with go-control-plane.
func TestControlPlane(t *testing.T) {
	for name, delta := range forms {
		for _, ordered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s ordered=%v", name, ordered), func(t *testing.T) {
				t.Parallel()
				c := newControl(t, ordered)
				o := observe(t, Config{Servers: []Server{c.Server}, Delta: delta})
				c.set("1", cluster("a", 1), cluster("b", 1, "service"), assignment("a", 1), assignment("service", 1), listener("l", 1, "r"), routes("r", 1))
				o.await("clusters a=1 b=1; assignments a=1 service=1; listeners l=1; routes r=1")
				c.set("2", cluster("a", 1), cluster("b", 1, "service"), assignment("a", 1), assignment("service", 2), listener("l", 1, "r"), routes("r", 1))
				o.await("clusters a=1 b=1; assignments a=1 service=2; listeners l=1; routes r=1")
				c.set("3", cluster("a", 1), cluster("b", 2, "other"), assignment("a", 1), assignment("other", 3), listener("l", 1, "q"), routes("q", 3))
				o.await("clusters a=1 b=2; assignments a=1 other=3; listeners l=1; routes q=3")
				c.set("4", cluster("a", 1), cluster("b", -4, "other"), assignment("a", 4), assignment("other", 4), listener("l", 1, "q"), routes("q", 4))
				o.await("clusters a=1 b=2; assignments a=4 other=4; listeners l=1; routes q=4")
				c.set("5", cluster("a", 1), assignment("a", 4))
				o.await("clusters a=1; assignments a=4")
				c.set("6")
				o.await("")
				c.set("7", cluster("a", 1), assignment("a", 7), listener("l", 7, "r"), routes("r", 7))
				o.await("clusters a=1; assignments a=7; listeners l=7; routes r=7")
			})
		}
	}
}

// A refusal is not answered by a storm: a server of the state of the world may send the same again at once.
func TestRefusalIsPaced(t *testing.T) {
	for name, delta := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newControl(t, false)
			o := observe(t, Config{Servers: []Server{c.Server}, Delta: delta})
			c.set("1", static("a", 1), listener("l", 1))
			o.await("clusters a=1; listeners l=1")
			c.set("2", static("a", -1), listener("l", 1))
			o.awaitStatus("refusal", func(s Status) bool { return s.Kinds[Clusters].Rejected > 1 || delta && s.Kinds[Clusters].Rejected > 0 })
			before := c.requests.Load()
			c.set("3", static("a", 3), listener("l", 1))
			o.await("clusters a=3; listeners l=1")
			if n := c.requests.Load() - before; n > 8 {
				t.Errorf("%d requests while one refusal waited", n)
			}
		})
	}
}

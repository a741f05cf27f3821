// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xlb-project/xlb/internal/model"
)

func addresses(n int) []model.Endpoint {
	out := make([]model.Endpoint, n)
	for i := range out {
		out[i] = model.Endpoint{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 80), Weight: 1}
	}
	return out
}

// named are clusters whose endpoints DNS names.
func named(names ...string) *model.Config {
	cfg := &model.Config{}
	for _, name := range names {
		cfg.Clusters = append(cfg.Clusters, &model.Cluster{Name: name, Discovery: model.StrictDNS, Targets: []model.Target{{Host: name + ".test", Port: 80, Weight: 1}}})
	}
	return cfg
}

// An answer for which there is no room is not part of what is put in force next, and is tried again when there may be some.
func TestAnswersThatAreRefusedBlockNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		n := &Node{log: slog.New(slog.NewTextHandler(&log, nil)), source: named("large", "small")}
		r, room, inForce := newResolving(n), 100, &model.Config{}
		r.generation = 1
		r.install = func(cfg *model.Config) error {
			total := 0
			for _, c := range cfg.Clusters {
				total += len(c.Endpoints)
			}
			if total > room {
				return errors.New("map endpoints is full")
			}
			inForce = cfg
			return nil
		}
		defer r.stop()
		require := func(when string, large, small, waiting int) {
			t.Helper()
			n.updates.Lock()
			defer n.updates.Unlock()
			if got := len(r.refused); got != waiting {
				t.Errorf("%s: %d answers wait, want %d", when, got, waiting)
			}
			if l, s := len(inForce.Cluster("large").Endpoints), len(inForce.Cluster("small").Endpoints); l != large || s != small {
				t.Errorf("%s: %d and %d endpoints are in force, want %d and %d", when, l, s, large, small)
			}
		}
		r.changed(1, "large", addresses(50))
		require("at first", 50, 0, 0)
		r.changed(1, "large", addresses(200))
		require("with too many", 50, 0, 1)
		r.changed(1, "small", addresses(3))
		require("with another answer", 50, 3, 1)
		n.updates.Lock()
		room = 1000
		n.updates.Unlock()
		time.Sleep(2 * refusedPace)
		synctest.Wait()
		require("with room", 200, 3, 0)
		n.updates.Lock()
		room = 1 << 20
		n.updates.Unlock()
		r.changed(1, "small", addresses(17000))
		require("with more than a cluster may have", 200, 3, 0)
		if want := fmt.Sprintf("its names have 17000 addresses; XLB takes up to %d", model.MaxResolved); !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log.String())
		}
	})
}

// A cluster with too many endpoints stays as it is; what is new has none.
func TestClustersWithoutRoomStayAsTheyAre(t *testing.T) {
	old, grown, added := &model.Cluster{Name: "a", Endpoints: addresses(1)}, &model.Cluster{Name: "a", Endpoints: addresses(9)}, &model.Cluster{Name: "b", Endpoints: addresses(9)}
	before, wanted := &model.Config{Clusters: []*model.Cluster{old}}, &model.Config{Clusters: []*model.Cluster{grown, added}}
	less := withCluster(wanted, before, "a")
	if less == nil || less.Clusters[0] != old || less.Clusters[1] != added || wanted.Clusters[0] != grown {
		t.Fatalf("got %+v", less)
	}
	least := withCluster(less, before, "b")
	if least == nil || len(least.Clusters[1].Endpoints) != 0 || len(added.Endpoints) != 9 {
		t.Fatalf("got %+v", least)
	}
	for _, name := range []string{"a", "b", "c"} {
		if again := withCluster(least, before, name); again != nil {
			t.Errorf("%s can have even less: %+v", name, again)
		}
	}
}

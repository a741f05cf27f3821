// SPDX-License-Identifier: Apache-2.0

package healthctl

import (
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	shared "github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
)

// A view that leaves a cluster which it has shared takes along what is known of the endpoints.
func TestAClusterThatAViewLeavesForHandsItsHealthOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.run(t)
		cluster := func(view string, from model.ClusterKey) *model.Cluster {
			c := checked()
			c.Outlier = &model.OutlierDetection{
				Interval: time.Second, BaseEjectionTime: 10 * time.Second, MaxEjectionTime: 10 * time.Second, MaxEjectionPercent: 100,
				Consecutive5xx: model.ConsecutiveRule{Count: 2, Enforcing: 100},
			}
			c.Name, c.Endpoints = "web", []model.Endpoint{{Address: r.address, Weight: 1}}
			c.Common = &model.Common{Key: model.ClusterKey{View: view, Name: "web"}, Views: []string{view}, From: from}
			return c
		}
		all, own := cluster("", model.ClusterKey{}), cluster("shop", model.SharedCluster("web"))
		endpoints := func(key model.ClusterKey) []*reconcile.EndpointEntry {
			return []*reconcile.EndpointEntry{{Index: map[string]uint32{"": 0, "shop": 1}[key.View], Cluster: key, Address: r.address}}
		}
		flags := func(index int) shared.EndpointFlags {
			return shared.EndpointFlags(atomic.LoadUint32(&r.mgr.cfg.Shared.Endpoints[index].Flags))
		}

		r.mgr.Apply([]*model.Cluster{all}, endpoints)
		synctest.Wait()
		r.mgr.Reached(0, shared.OutlierErrors)
		synctest.Wait()
		if flags(0)&shared.EndpointEjected == 0 {
			t.Fatal("the endpoint is not ejected")
		}
		time.Sleep(4 * time.Second)

		// reconcile has given it the flags.
		atomic.StoreUint32(&r.mgr.cfg.Shared.Endpoints[1].Flags, uint32(flags(0)))
		r.down.Store(true)
		r.mgr.Apply([]*model.Cluster{all, own}, endpoints)
		synctest.Wait()
		if flags(1) != shared.EndpointEjected {
			t.Errorf("flags %#x behind one failed check, want that of the ejection", flags(1))
		}
		if !r.mgr.Warm() {
			t.Error("waits for a first result of what has been checked before")
		}
		r.down.Store(false)
		if n := r.mgr.Stats(own.Key())["outlier_detection.ejections_active"]; n != 1 {
			t.Errorf("%d ejections are active, want 1", n)
		}
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if flags(0) != 0 || flags(1) != 0 {
			t.Errorf("flags %#x and %#x when the time of the ejection is over", flags(0), flags(1))
		}
	})
}

// An address that the other cluster does not have begins as any does.
func TestWhatTheOtherClusterDoesNotHaveBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.run(t)
		r.down.Store(true)
		c := checked()
		c.Name, c.Endpoints = "web", []model.Endpoint{{Address: r.address, Weight: 1}}
		c.Common = &model.Common{Key: model.ClusterKey{View: "shop", Name: "web"}, Views: []string{"shop"}, From: model.SharedCluster("web")}
		r.mgr.Apply([]*model.Cluster{c}, func(key model.ClusterKey) []*reconcile.EndpointEntry {
			return []*reconcile.EndpointEntry{{Index: index, Cluster: key, Address: netip.AddrPortFrom(r.address.Addr(), r.address.Port())}}
		})
		r.mgr.mu.Lock()
		defer r.mgr.mu.Unlock()
		for _, m := range r.mgr.watched[c.Key()].members {
			if m.isNew {
				t.Error("the endpoint would take over what is learned of another one later")
			}
		}
	})
}

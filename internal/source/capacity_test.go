// SPDX-License-Identifier: Apache-2.0

package source

import (
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
)

func addresses(n int) []model.Endpoint {
	out := make([]model.Endpoint, n)
	for i := range out {
		out[i] = model.Endpoint{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 80), Weight: 1}
	}
	return out
}

// A cluster with too many endpoints stays as it is; what is new has none.
func TestClustersWithoutRoomStayAsTheyAre(t *testing.T) {
	old, grown, added := &model.Cluster{Name: "a", Endpoints: addresses(1)}, &model.Cluster{Name: "a", Endpoints: addresses(9)}, &model.Cluster{Name: "b", Endpoints: addresses(9)}
	before, wanted := &model.Config{Clusters: []*model.Cluster{old}}, &model.Config{Clusters: []*model.Cluster{grown, added}}
	less := withCluster(wanted, before, model.SharedCluster("a"))
	if less == nil || less.Clusters[0] != old || less.Clusters[1] != added || wanted.Clusters[0] != grown {
		t.Fatalf("got %+v", less)
	}
	least := withCluster(less, before, model.SharedCluster("b"))
	if least == nil || len(least.Clusters[1].Endpoints) != 0 || len(added.Endpoints) != 9 {
		t.Fatalf("got %+v", least)
	}
	for _, name := range []string{"a", "b", "c"} {
		if again := withCluster(least, before, model.SharedCluster(name)); again != nil {
			t.Errorf("%s can have even less: %+v", name, again)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/model"
)

// A client that leaves is counted with its cluster, an endpoint or none.
func TestClientsThatLeaveAreCountedWithTheirCluster(t *testing.T) {
	endpoint := netip.MustParseAddrPort("10.0.0.1:80")
	r := NewRecorder()
	for _, q := range []Request{
		{Cluster: model.SharedCluster("web"), Endpoint: endpoint, Flag: "DC"},
		{Cluster: model.SharedCluster("web"), Endpoint: endpoint, Status: 200, Flag: "DC"},
		{Cluster: model.SharedCluster("web"), Flag: "DC"},
		{Cluster: model.SharedCluster("web"), Endpoint: endpoint, Flag: "DC", Resumed: true, Sent: true},
		{Cluster: model.SharedCluster("web"), Endpoint: endpoint, Flag: "DC", Resumed: true}, // the kernel has counted it
		{Cluster: model.SharedCluster("web"), Endpoint: endpoint, Status: 200, Flag: "-"},
		{Flag: "DC"},
	} {
		r.Record(q)
	}
	s := snapshotCluster(&Cluster{Key: model.SharedCluster("web")}, &account{left: fast{cancelled: 3}}, r.cluster(model.SharedCluster("web")))
	if s.Cancelled != 7 {
		t.Errorf("got %d, want 4 of the slow path and 3 of the fast one", s.Cancelled)
	}
}

// The kernel has counted the request, and its first attempt at its endpoint.
func TestRequestsThatTheKernelBeganAreNotCountedTwice(t *testing.T) {
	first, second := netip.MustParseAddrPort("10.0.0.1:80"), netip.MustParseAddrPort("10.0.0.2:80")
	r := NewRecorder()
	r.Record(Request{Cluster: model.SharedCluster("web"), Endpoint: first, Status: 503, Flag: "URX", Resumed: true})
	r.Withheld(model.SharedCluster("web"), first, 503)
	r.Record(Request{Cluster: model.SharedCluster("web"), Endpoint: second, Status: 200, Flag: "-", Resumed: true, Sent: true})
	r.Withheld(model.SharedCluster("web"), first, 409)
	if total, flags := r.totals(); total != 0 || len(flags) != 0 {
		t.Errorf("requests of the slow path: got %d, %v, want none", total, flags)
	}
	got := r.cluster(model.SharedCluster("web"))
	want := slowCluster{
		requests:  1,
		responses: [statusClasses]uint64{1: 1, 4: 1},
		endpoints: map[netip.AddrPort]slowEndpoint{first: {successes: 1, errors: 2}, second: {requests: 1, successes: 1}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(slowCluster{}, slowEndpoint{}), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The kernel has counted the request, and its first attempt at its endpoint.
func TestRequestsThatTheKernelBeganAreNotCountedTwice(t *testing.T) {
	first, second := netip.MustParseAddrPort("10.0.0.1:80"), netip.MustParseAddrPort("10.0.0.2:80")
	r := NewRecorder()
	r.Record(Request{Cluster: "web", Endpoint: first, Status: 503, Flag: "URX", Begun: true})
	r.Withheld("web", first, 503)
	r.Record(Request{Cluster: "web", Endpoint: second, Status: 200, Flag: "-", Begun: true, Sent: true})
	r.Withheld("web", first, 409)
	if total, flags := r.totals(); total != 0 || len(flags) != 0 {
		t.Errorf("requests of the slow path: got %d, %v, want none", total, flags)
	}
	got := r.cluster("web")
	want := slowCluster{
		requests:  1,
		responses: [statusClasses]uint64{1: 1, 4: 1},
		endpoints: map[netip.AddrPort]slowEndpoint{first: {successes: 1, errors: 2}, second: {requests: 1, successes: 1}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(slowCluster{}, slowEndpoint{}), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

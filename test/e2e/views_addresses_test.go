// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
)

// Ports of one host that views mean different things by.
const (
	takenPort    = 9080
	originalPort = 9090
	otherPort    = 9100
)

// allAddresses is a configuration of a view whose listeners are found by each kind of address: IPv6, a port at any address, and the address of a server
// that is not the balancer's, to which a cluster passes the connection on, or not.
func (v *viewers) allAddresses(view string, six, far netip.AddrPort, passes bool) harness.Config {
	to := func(cluster string) []harness.VirtualHost {
		return []harness.VirtualHost{{Routes: []harness.Route{{Clusters: harness.To(cluster)}}}}
	}
	at := "origins"
	if passes {
		at = "itself"
	}
	return harness.Config{
		Listeners: []harness.Listener{
			{Address: podService6, Hosts: to("six")},
			{Address: netip.MustParseAddrPort("0.0.0.0:15001"), TCP: map[string]any{"cluster": "origins"}, Fields: map[string]any{"use_original_dst": true, "bind_to_port": false}},
			{Address: netip.AddrPortFrom(netip.IPv4Unspecified(), takenPort), Hosts: to("origins"), Fields: map[string]any{"bind_to_port": false}},
			{Address: far, Hosts: to(at), Fields: originalFilter()},
		},
		Clusters: []harness.Cluster{
			{Name: "origins", Endpoints: []netip.AddrPort{v.servers[view+" a"]}},
			{Name: "six", Endpoints: []netip.AddrPort{six}},
			{Name: "itself", Policy: "CLUSTER_PROVIDED", Fields: original(nil)},
		},
	}
}

// Whatever kind of address a connection goes to, it leads to its own view's servers, and without a view where it goes without a balancer.
func TestAddressesOfAllKindsAreTheirViewsOwn(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		v := newViewers(t, 2)
		host := v.node.OtherHost(t)
		at := func(port uint16) netip.AddrPort {
			return host.OriginAt(t, "the host", netip.AddrPortFrom(host.Address, port)).Address
		}
		taken, original, other := at(takenPort), at(originalPort), at(otherPort)
		for i := range v.views {
			name := v.views[i].Name
			six := host.OriginAt(t, name+" six", netip.AddrPortFrom(host.Address6, uint16(8100+i))).Address
			v.views[i].Config = v.allAddresses(name, six, original, i == 0)
		}
		balancer := v.start(t, mode)
		for _, tt := range []struct {
			name string
			to   netip.AddrPort
			want [3]string // of the views, and of a pod without one
		}{
			{"IPv6", podService6, [3]string{"200 view0 six", "200 view1 six", ""}},
			{"by port", taken, [3]string{"200 view0 a", "200 view1 a", "200 the host"}},
			{"where one view passes it on", original, [3]string{"200 the host", "200 view1 a", "200 the host"}},
			{"what is left", other, [3]string{"200 view0 a", "200 view1 a", "200 the host"}},
		} {
			for i, want := range tt.want {
				for range 3 {
					if want == "" {
						continue
					}
					if got := firstAnswer(t, v.pods[i].Place, tt.to, "/"); got != want {
						t.Errorf("%s, pod %d: got %s, want %s", tt.name, i, got, want)
					}
				}
			}
		}
		// All of them but those of the pod without a view were balanced.
		harness.Eventually(t, patience, "the connections of both views were balanced", func() bool {
			verdicts := func(which string) float64 {
				return balancer.Metric(t, "xlb_verdicts_total", fmt.Sprintf("verdict=%q", which))
			}
			return verdicts("connect_intercepted")+verdicts("connect_plain") == 2*4*3
		})
	})
}

// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"encoding/hex"
	"net/netip"
	"net/url"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// defaultNoTraffic is Envoy's HealthCheck.no_traffic_interval.
const defaultNoTraffic = 60 * time.Second

// healthCheck translates the one health check that a cluster may have; nil where there is none.
func (t *translator) healthCheck(list []*corev3.HealthCheck, path string) *model.HealthCheck {
	if len(list) == 0 {
		return nil
	}
	if len(list) > 1 {
		t.p.Add(path, "has %d health checks; XLB asks endpoints in one way: keep one", len(list))
	}
	in, path := list[0], problem.At(path, 0)
	out := &model.HealthCheck{
		Timeout:               t.Positive(in.GetTimeout(), time.Second, path+".timeout"),
		UnhealthyThreshold:    in.GetUnhealthyThreshold().GetValue(),
		HealthyThreshold:      in.GetHealthyThreshold().GetValue(),
		Intervals:             t.checkIntervals(in, path),
		InitialJitter:         t.Duration(in.GetInitialJitter(), 0, path+".initial_jitter"),
		IntervalJitter:        t.Duration(in.GetIntervalJitter(), 0, path+".interval_jitter"),
		IntervalJitterPercent: in.GetIntervalJitterPercent(),
		ReuseConnection:       boolOr(in.GetReuseConnection(), true),
		LogFailures:           in.GetAlwaysLogHealthCheckFailures(),
		LogSuccesses:          in.GetAlwaysLogHealthCheckSuccess(),
	}
	switch c := in.GetHealthChecker().(type) {
	case *corev3.HealthCheck_HttpHealthCheck_:
		out.HTTP = t.httpCheck(c.HttpHealthCheck, path+".http_health_check")
	case *corev3.HealthCheck_TcpHealthCheck_:
		out.TCP = t.tcpCheck(c.TcpHealthCheck, path+".tcp_health_check")
	}
	return out
}

// checkIntervals fills those in that are derived from others.
func (t *translator) checkIntervals(in *corev3.HealthCheck, path string) model.CheckIntervals {
	var i model.CheckIntervals
	i.Healthy = t.Positive(in.GetInterval(), time.Second, path+".interval")
	i.HealthyEdge = t.Positive(in.GetHealthyEdgeInterval(), i.Healthy, path+".healthy_edge_interval")
	i.Unhealthy = t.Positive(in.GetUnhealthyInterval(), i.Healthy, path+".unhealthy_interval")
	i.UnhealthyEdge = t.Positive(in.GetUnhealthyEdgeInterval(), i.Unhealthy, path+".unhealthy_edge_interval")
	i.NoTraffic = t.Positive(in.GetNoTrafficInterval(), defaultNoTraffic, path+".no_traffic_interval")
	i.NoTrafficHealthy = t.Positive(in.GetNoTrafficHealthyInterval(), i.NoTraffic, path+".no_traffic_healthy_interval")
	return i
}

func (t *translator) httpCheck(in *corev3.HealthCheck_HttpHealthCheck, path string) *model.HTTPCheck {
	out := &model.HTTPCheck{
		Host: in.GetHost(), Path: in.GetPath(), Method: "GET",
		Changes:   t.headers.Changes(in.GetRequestHeadersToAdd(), in.GetRequestHeadersToRemove(), true, path+".request_headers"),
		Expected:  t.statusRanges(in.GetExpectedStatuses(), path+".expected_statuses"),
		Retriable: t.statusRanges(in.GetRetriableStatuses(), path+".retriable_statuses"),
	}
	if m := in.GetMethod(); m != corev3.RequestMethod_METHOD_UNSPECIFIED {
		out.Method = m.String()
	}
	if len(out.Expected) == 0 {
		out.Expected = []model.StatusRange{{First: 200, Behind: 201}}
	}
	if _, err := url.ParseRequestURI(out.Path); !strings.HasPrefix(out.Path, "/") || err != nil {
		t.p.Add(path+".path", "%q is no path: begin with \"/\", and escape what may not stand in one (RFC 3986 section 3.3)", out.Path)
	}
	return out
}

// statusRanges holds them to Envoy's bounds.
func (t *translator) statusRanges(in []*typev3.Int64Range, path string) []model.StatusRange {
	var out []model.StatusRange
	for i, r := range in {
		if r.GetStart() < 100 || r.GetEnd() > 600 || r.GetStart() >= r.GetEnd() {
			t.p.Add(problem.At(path, i), "[%d, %d) is no range of statuses; start below end, within 100 and 600", r.GetStart(), r.GetEnd())
			continue
		}
		out = append(out, model.StatusRange{First: int(r.GetStart()), Behind: int(r.GetEnd())})
	}
	return out
}

func (t *translator) tcpCheck(in *corev3.HealthCheck_TcpHealthCheck, path string) *model.TCPCheck {
	out := &model.TCPCheck{Send: t.payload(in.GetSend(), path+".send")}
	for i, block := range in.GetReceive() {
		out.Receive = append(out.Receive, t.payload(block, problem.At(path+".receive", i)))
	}
	return out
}

// payload is text in hexadecimal.
func (t *translator) payload(in *corev3.HealthCheck_Payload, path string) []byte {
	b, err := hex.DecodeString(in.GetText())
	if err != nil {
		t.p.Add(path+".text", "%q is not hexadecimal: write two digits for each byte", in.GetText())
	}
	return b
}

// endpointCheck translates what is different for one endpoint.
func (t *translator) endpointCheck(in *endpointv3.Endpoint_HealthCheckConfig, path string) model.EndpointCheck {
	out := model.EndpointCheck{Hostname: in.GetHostname(), Disabled: in.GetDisableActiveHealthCheck()}
	var ip netip.Addr
	if socket := in.GetAddress().GetSocketAddress(); socket != nil {
		ip = t.IP(socket.GetAddress(), path+".address.socket_address.address")
		if socket.GetPortValue() != 0 {
			t.p.Add(path+".address.socket_address.port_value", "the check's port is port_value of health_check_config; use 0 here")
		}
	}
	out.Address = netip.AddrPortFrom(ip, uint16(in.GetPortValue()))
	return out
}

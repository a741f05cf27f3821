// SPDX-License-Identifier: Apache-2.0

package config

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// connectionLimits translates what bounds the connections of a listener's clients.
func (t *translator) connectionLimits(hcm *hcmv3.HttpConnectionManager, path string) model.ConnectionLimits {
	common, commonPath := hcm.GetCommonHttpProtocolOptions(), path+".common_http_protocol_options"
	out := model.ConnectionLimits{
		Idle:     t.Duration(common.GetIdleTimeout(), 0, commonPath+".idle_timeout"),
		Age:      t.Duration(common.GetMaxConnectionDuration(), 0, commonPath+".max_connection_duration"),
		Requests: common.GetMaxRequestsPerConnection().GetValue(),
	}
	drain := t.Duration(hcm.GetDrainTimeout(), model.DefaultDrain, path+".drain_timeout")
	if out.Idle > 0 || out.Age > 0 {
		out.Drain = drain
	}
	return out
}

// longest translates how long a route's requests may take. As in Envoy a route that says so has no timeout beside it, whatever it says.
func (t *translator) longest(out *model.Route, d *routev3.RouteAction_MaxStreamDuration, absent time.Duration, path string) {
	out.MaxDuration = absent
	if d == nil {
		return
	}
	out.Timeout = 0
	out.MaxDuration = t.Duration(d.GetMaxStreamDuration(), absent, path+".max_stream_duration")
}

// upstreamOptions is the one extension that clusters may have options for.
const upstreamOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// protocolOptions translates what bounds connections to endpoints.
func (t *translator) protocolOptions(out *model.Cluster, c *clusterv3.Cluster, path string) {
	//nolint:staticcheck // deprecated in favour of an extension, but what older files have
	common, requests := c.GetCommonHttpProtocolOptions(), c.GetMaxRequestsPerConnection()
	commonPath := path + ".common_http_protocol_options"
	for name, content := range c.GetTypedExtensionProtocolOptions() {
		optionsPath := problem.Key(path+".typed_extension_protocol_options", name)
		options := &upstreamv3.HttpProtocolOptions{}
		if name != upstreamOptions {
			t.p.Add(optionsPath, "not supported: XLB knows %s", upstreamOptions)
			continue
		}
		if !t.Unpack(content, options, optionsPath, "HttpProtocolOptions") {
			continue
		}
		if common != nil || requests != nil {
			t.p.Add(optionsPath, "set beside common_http_protocol_options or max_requests_per_connection of the cluster, which Envoy does not look at then; keep this one")
		}
		common, commonPath = options.GetCommonHttpProtocolOptions(), optionsPath+".common_http_protocol_options"
		out.Trailers = options.GetExplicitHttpConfig().GetHttpProtocolOptions().GetEnableTrailers() ||
			options.GetUseDownstreamProtocolConfig().GetHttpProtocolOptions().GetEnableTrailers()
	}
	t.upstreamLimits(out, common, commonPath)
	if requests != nil {
		out.Connections.Requests = requests.GetValue()
	}
}

func (t *translator) upstreamLimits(out *model.Cluster, common *corev3.HttpProtocolOptions, path string) {
	out.Connections = model.UpstreamLimits{
		Idle:     t.Duration(common.GetIdleTimeout(), 0, path+".idle_timeout"),
		Age:      t.Duration(common.GetMaxConnectionDuration(), 0, path+".max_connection_duration"),
		Requests: common.GetMaxRequestsPerConnection().GetValue(),
	}
	out.MaxDuration = t.Duration(common.GetMaxStreamDuration(), 0, path+".max_stream_duration")
}

// markTimed tells the routes that lead to clusters which limit how long a request may take.
func markTimed(cfg *model.Config) {
	timed := false
	for _, c := range cfg.Clusters {
		timed = timed || c.MaxDuration > 0
	}
	if !timed {
		return
	}
	for _, l := range cfg.Listeners {
		for _, vh := range l.Routes.VirtualHosts {
			for _, r := range vh.Routes {
				r.TimedByCluster = cfg.TimedByCluster(r)
			}
		}
	}
}

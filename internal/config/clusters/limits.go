// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// UpstreamOptions is the one extension that clusters may have options for, by its key in typed_extension_protocol_options.
const UpstreamOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// protocolOptions translates what bounds connections to endpoints.
func (t *translator) protocolOptions(out *model.Cluster, c *clusterv3.Cluster, path string) {
	//nolint:staticcheck // deprecated in favour of an extension, but what older files have
	common, requests := c.GetCommonHttpProtocolOptions(), c.GetMaxRequestsPerConnection()
	commonPath := path + ".common_http_protocol_options"
	for name, content := range c.GetTypedExtensionProtocolOptions() {
		optionsPath := problem.Key(path+".typed_extension_protocol_options", name)
		options := &upstreamv3.HttpProtocolOptions{}
		if name != UpstreamOptions {
			t.p.Add(optionsPath, "not supported: XLB knows %s", UpstreamOptions)
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

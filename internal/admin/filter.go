// SPDX-License-Identifier: Apache-2.0

package admin

import "github.com/xlb-project/xlb/internal/model"

// Names and types of the filters that XLB has besides the router.
const (
	corsName   = "envoy.filters.http.cors"
	faultName  = "envoy.filters.http.fault"
	corsTypes  = typeURL + "envoy.extensions.filters.http.cors.v3."
	faultTypes = typeURL + "envoy.extensions.filters.http.fault.v3."
)

// filterObjects are the filters of a connection manager: envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter.
func filterObjects(t *model.RouteTable) []object {
	list := make([]object, 0, len(t.Filters)+1)
	for _, f := range t.Filters {
		if f == model.FilterCORS {
			list = append(list, object{"name": corsName, "typed_config": object{"@type": corsTypes + "Cors"}})
		} else {
			list = append(list, object{"name": faultName, "typed_config": faultObject(t.Fault)})
		}
	}
	router := object{"@type": typeURL + "envoy.extensions.filters.http.router.v3.Router"}
	if t.Hop != nil && t.Hop.SuppressEnvoyHeaders {
		router["suppress_envoy_headers"] = true
	}
	return append(list, object{"name": "envoy.filters.http.router", "typed_config": router})
}

// addFilters adds typed_per_filter_config: what a route, or a share of one, does otherwise than what it is
// part of, wherever that was written.
func addFilters(o object, own, above model.RouteFilters) {
	configs := object{}
	if own.CORS != above.CORS {
		configs[corsName] = corsObject(own.CORS)
	}
	if own.Fault != above.Fault {
		configs[faultName] = faultObject(own.Fault)
	}
	if len(configs) > 0 {
		o["typed_per_filter_config"] = configs
	}
}

// corsObject is envoy.extensions.filters.http.cors.v3.CorsPolicy.
func corsObject(c *model.CORS) object {
	o := object{"@type": corsTypes + "CorsPolicy"}
	if c == nil {
		o["filter_enabled"] = object{"default_value": fractionObject(model.Fraction{Denominator: 100})}
		return o
	}
	// What is false may be so in place of true above.
	o["allow_credentials"], o["allow_private_network_access"], o["forward_not_matching_preflights"] = c.Credentials, c.PrivateNetwork, !c.AnswerAll
	if len(c.Origins) > 0 {
		o["allow_origin_string_match"] = objects(c.Origins, stringObject)
	}
	for name, value := range map[string]string{
		"allow_methods": c.Methods, "allow_headers": c.Headers, "expose_headers": c.ExposeHeaders, "max_age": c.MaxAge,
	} {
		if value != "" {
			o[name] = value
		}
	}
	if c.Enabled.Denominator > 0 {
		o["filter_enabled"] = object{"default_value": fractionObject(c.Enabled)}
	}
	return o
}

// faultObject is envoy.extensions.filters.http.fault.v3.HTTPFault, empty for none.
func faultObject(f *model.Fault) object {
	o := object{"@type": faultTypes + "HTTPFault"}
	if f == nil {
		return o
	}
	if f.Delay > 0 {
		o["delay"] = object{"fixed_delay": seconds(f.Delay), "percentage": fractionObject(f.DelayShare)}
	}
	if f.Status != 0 {
		o["abort"] = object{"http_status": f.Status, "response_body": f.Body, "percentage": fractionObject(f.AbortShare)}
	}
	if f.Cluster != "" {
		o["upstream_cluster"] = f.Cluster
	}
	if len(f.Headers) > 0 {
		o["headers"] = objects(f.Headers, headerObject)
	}
	return o
}

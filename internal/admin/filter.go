// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// Names and types of the filters that XLB has besides the router.
const (
	corsName   = "envoy.filters.http.cors"
	faultName  = "envoy.filters.http.fault"
	corsTypes  = typeURL + "envoy.extensions.filters.http.cors.v3."
	faultTypes = typeURL + "envoy.extensions.filters.http.fault.v3."

	sessionName  = "envoy.filters.http.stateful_session"
	sessionTypes = typeURL + "envoy.extensions.filters.http.stateful_session.v3."
	stateName    = "envoy.http.stateful_session."
	stateTypes   = typeURL + "envoy.extensions.http.stateful_session."
)

// filterObjects are the filters of a connection manager: envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter.
func filterObjects(t *model.RouteTable) []object {
	list := make([]object, 0, len(t.Filters)+1)
	for _, f := range t.Filters {
		switch f {
		case model.FilterCORS:
			list = append(list, object{"name": corsName, "typed_config": object{"@type": corsTypes + "Cors"}})
		case model.FilterSession:
			list = append(list, object{"name": sessionName, "typed_config": sessionObject(t.Session)})
		case model.FilterFault:
			list = append(list, object{"name": faultName, "typed_config": faultObject(t.Fault)})
		}
	}
	router := object{"@type": typeURL + "envoy.extensions.filters.http.router.v3.Router"}
	if t.EnvoyHeaders != nil && t.EnvoyHeaders.SuppressEnvoyHeaders {
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
	if own.Session != above.Session {
		configs[sessionName] = object{"@type": sessionTypes + "StatefulSessionPerRoute", "disabled": true}
		if own.Session != nil {
			configs[sessionName] = object{"@type": sessionTypes + "StatefulSessionPerRoute", "stateful_session": sessionObject(own.Session)}
		}
	}
	if len(configs) > 0 {
		o["typed_per_filter_config"] = configs
	}
}

// corsObject is envoy.extensions.filters.http.cors.v3.CorsPolicy.
func corsObject(c *model.CORS) object {
	o := object{"@type": corsTypes + "CorsPolicy"}
	if c == nil {
		o["filter_enabled"] = object{"default_value": fractionObject(matcher.Fraction{Denominator: 100})}
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

// sessionObject is envoy.extensions.filters.http.stateful_session.v3.StatefulSession.
func sessionObject(s *model.Session) object {
	o := object{"@type": sessionTypes + "StatefulSession"}
	if s == nil {
		return o
	}
	state, kind := object{"@type": stateTypes + "header.v3.HeaderBasedSessionState", "name": s.Header}, "header"
	if s.Header == "" {
		cookie := object{"name": s.Cookie}
		if s.New.TTL > 0 {
			cookie["ttl"] = seconds(s.New.TTL)
		}
		if s.New.Path != "" {
			cookie["path"] = s.New.Path
		}
		if len(s.New.Attributes) > 0 {
			cookie["attributes"] = objects(s.New.Attributes, func(a *model.CookieAttribute) object { return object{"name": a.Name, "value": a.Value} })
		}
		state, kind = object{"@type": stateTypes + "cookie.v3.CookieBasedSessionState", "cookie": cookie}, "cookie"
	}
	o["session_state"] = object{"name": stateName + kind, "typed_config": state}
	if s.Strict {
		o["strict"] = true
	}
	if s.NotFound != 0 {
		o["status_on_strict_destination_not_found"] = s.NotFound
	}
	return o
}

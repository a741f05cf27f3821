// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"maps"
	"net/http"
	"slices"

	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	healthcheckv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/health_check/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	sessionv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/config/schema"
	"github.com/xlb-project/xlb/internal/config/values"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/problem"
)

// httpFilters are those of one connection manager before its router.
type httpFilters struct {
	// order in which they see a request.
	order []model.Filter
	// named are the filters by the names that typed_per_filter_config uses.
	named map[string]model.Filter
	// fault is for requests whose route says nothing else.
	fault *model.Fault
	// session is for routes that say nothing else.
	session *model.Session
	// ready is the health_check filter, or nil.
	ready *readiness
	// suppressEnvoyHeaders is the router's.
	suppressEnvoyHeaders bool
}

// httpFilters translates the filters: cors, fault and stateful_session at most once each, then the router.
func (t *translator) httpFilters(hcm *hcmv3.HttpConnectionManager, path string) httpFilters {
	path += ".http_filters"
	out := httpFilters{named: map[string]model.Filter{}}
	all := hcm.GetHttpFilters()
	if len(all) == 0 {
		t.p.Add(path, "empty; XLB needs the router")
		return out
	}
	last := len(all) - 1
	for i, f := range all[:last] {
		if schema.IgnoresHTTPFilter(f.GetTypedConfig()) {
			continue
		}
		t.httpFilter(f, &out, problem.At(path, i))
	}
	router := &routerv3.Router{}
	t.Unpack(all[last].GetTypedConfig(), router, problem.At(path, last)+".typed_config", "Router at the end")
	out.suppressEnvoyHeaders = router.GetSuppressEnvoyHeaders()
	return out
}

func (t *translator) httpFilter(f *hcmv3.HttpFilter, out *httpFilters, path string) {
	content := f.GetTypedConfig()
	kind := model.FilterCORS
	fault, session := &faultv3.HTTPFault{}, &sessionv3.StatefulSession{}
	ready := &healthcheckv3.HealthCheck{}
	switch {
	case content.MessageIs(ready):
		if t.Unpack(content, ready, path+".typed_config", "HealthCheck") {
			t.readyFilter(ready, out, path)
		}
		return
	case content.MessageIs(fault):
		kind = model.FilterFault
		if t.Unpack(content, fault, path+".typed_config", "HTTPFault") {
			out.fault = t.fault(fault, path+".typed_config")
		}
	case content.MessageIs(session):
		kind = model.FilterSession
		if t.Unpack(content, session, path+".typed_config", "StatefulSession") {
			out.session = t.session(session, path+".typed_config")
		}
	case !t.Unpack(content, &corsv3.Cors{}, path+".typed_config", "Cors, HTTPFault or StatefulSession before the router"):
		return
	}
	if slices.Contains(out.order, kind) {
		t.p.Add(path, "a second filter of one type; keep one")
	}
	if _, twice := out.named[f.GetName()]; twice {
		t.p.Add(path+".name", "%q is the name of another filter; rename one", f.GetName())
	}
	out.order = append(out.order, kind)
	out.named[f.GetName()] = kind
}

// filterLevel is what one part of the configuration says to filters.
type filterLevel struct {
	cors  *corsLevel
	fault *model.Fault
	// ownFault: it says what faults there are, or that there are none.
	ownFault bool
	// session, likewise.
	session    *model.Session
	ownSession bool
}

// filterLevel translates a typed_per_filter_config.
func (t *translator) filterLevel(in map[string]*anypb.Any, path string) filterLevel {
	var out filterLevel
	path += ".typed_per_filter_config"
	for _, name := range slices.Sorted(maps.Keys(in)) {
		place := problem.Key(path, name)
		kind, known := t.filters.named[name]
		if !known && t.lenient {
			// As in Envoy one for a filter that the listener does not have changes nothing.
			if kind, known = kindOfContent(in[name]); !t.in.Clusters.Unknown {
				continue
			}
		}
		switch {
		case !known:
			t.p.Add(place, "no such filter in http_filters; add it there, or correct the name")
		case kind == model.FilterCORS:
			policy := &corsv3.CorsPolicy{}
			if t.Unpack(in[name], policy, place, "CorsPolicy") {
				out.cors = t.corsLevel(policy, place)
			}
		case kind == model.FilterSession:
			own := &sessionv3.StatefulSessionPerRoute{}
			if t.Unpack(in[name], own, place, "StatefulSessionPerRoute") {
				out.session, out.ownSession = t.routeSession(own, place), true
			}
		default:
			fault := &faultv3.HTTPFault{}
			if t.Unpack(in[name], fault, place, "HTTPFault") {
				out.fault, out.ownFault = t.fault(fault, place), true
			}
		}
	}
	return out
}

// kindOfContent tells the filter of a configuration by its type.
func kindOfContent(content *anypb.Any) (model.Filter, bool) {
	switch {
	case content.MessageIs(&corsv3.CorsPolicy{}):
		return model.FilterCORS, true
	case content.MessageIs(&sessionv3.StatefulSessionPerRoute{}):
		return model.FilterSession, true
	case content.MessageIs(&faultv3.HTTPFault{}):
		return model.FilterFault, true
	}
	return 0, false
}

// routeFilters is what levels, the most specific first, mean together: of policies each
// field, of faults the whole.
func (t *translator) routeFilters(levels []filterLevel) model.RouteFilters {
	out := model.RouteFilters{CORS: mergedCORS(levels), Fault: t.filters.fault, Session: t.filters.session}
	if i := slices.IndexFunc(levels, func(l filterLevel) bool { return l.ownFault }); i >= 0 {
		out.Fault = levels[i].fault
	}
	if i := slices.IndexFunc(levels, func(l filterLevel) bool { return l.ownSession }); i >= 0 {
		out.Session = levels[i].session
	}
	return out
}

// defaultFaultBody is Envoy's answer to an aborted request.
const defaultFaultBody = "fault filter abort"

// fault translates one filter's configuration; nil is one that never has an effect, as that of an empty filter.
func (t *translator) fault(in *faultv3.HTTPFault, path string) *model.Fault {
	out := &model.Fault{Cluster: in.GetUpstreamCluster(), Headers: t.headers.Matches(in.GetHeaders(), path+".headers")}
	if d := in.GetDelay(); d != nil {
		out.Delay = t.Duration(d.GetFixedDelay(), 0, path+".delay.fixed_delay")
		out.DelayShare = values.Fraction(d.GetPercentage())
	}
	if a := in.GetAbort(); a != nil {
		out.Status, out.Body = int(a.GetHttpStatus()), a.GetResponseBody()
		out.AbortShare = values.Fraction(a.GetPercentage())
		if out.Body == "" {
			out.Body = defaultFaultBody
		}
	}
	if out.DelayShare.Never() || out.Delay == 0 {
		out.Delay, out.DelayShare = 0, matcher.Fraction{}
	}
	if out.AbortShare.Never() {
		out.Status, out.Body, out.AbortShare = 0, "", matcher.Fraction{}
	}
	if out.Delay == 0 && out.Status == 0 {
		return nil
	}
	return out
}

// readyFilter translates the filter by which load balancers ask whether the listener serves: which requests it answers itself.
func (t *translator) readyFilter(in *healthcheckv3.HealthCheck, out *httpFilters, path string) {
	if out.ready != nil || len(out.order) > 0 {
		t.p.Add(path, "the health_check filter has to be the first one, and the only one of its type; move it to the front of http_filters")
	}
	if in.GetPassThroughMode() == nil {
		t.p.Add(path+".typed_config.pass_through_mode", "missing, which Envoy refuses; write false")
	}
	out.ready = &readiness{matches: t.headers.Matches(in.GetHeaders(), path+".typed_config.headers")}
}

// readiness is a filter of the connection manager, which comes before all routes.
type readiness struct{ matches []matcher.HeaderMatch }

// addTo puts a route in front of those of every virtual host; hosts without one get one that has no other.
func (r *readiness) addTo(table *model.RouteTable) {
	if r == nil {
		return
	}
	answer := func() *model.Route {
		return &model.Route{
			Name: "health_check", Path: matcher.PathMatch{Kind: matcher.PathPrefix, Value: "/"}, Headers: r.matches,
			Direct: &model.DirectResponse{Status: http.StatusOK}, Timeout: model.DefaultRouteTimeout,
		}
	}
	all := false
	for _, vh := range table.VirtualHosts {
		vh.Routes = append([]*model.Route{answer()}, vh.Routes...)
		all = all || slices.Contains(vh.Domains, "*")
	}
	if !all {
		table.VirtualHosts = append(table.VirtualHosts, &model.VirtualHost{Name: "health_check", Domains: []string{"*"}, Routes: []*model.Route{answer()}})
	}
}

// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"strings"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/config/values"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// routeTable translates a route table; owner is what its routes take from the connection manager.
func (t *translator) routeTable(rc *routev3.RouteConfiguration, owner routeOwner, path string) *model.RouteTable {
	out := &model.RouteTable{
		Name:                 rc.GetName(),
		IgnorePort:           rc.GetIgnorePortInHostMatching(),
		IgnorePathParameters: rc.GetIgnorePathParametersInPathMatching(),
		Changes:              t.headers.Level(rc, path),
		Filters:              t.filters.order,
		Fault:                t.filters.fault,
		Session:              t.filters.session,
		MostSpecificWins:     rc.GetMostSpecificHeaderMutationsWins(),
	}
	if rc.GetValidateClusters() != nil && !rc.GetValidateClusters().GetValue() {
		t.lenient = true
	}
	domains := map[string]string{}
	owner.directBody = directBodyLimit(rc)
	tableMirrors := t.mirrors(rc.GetRequestMirrorPolicies(), path)
	tableFilters := t.filterLevel(rc.GetTypedPerFilterConfig(), path)
	for i, vh := range rc.GetVirtualHosts() {
		vhPath := problem.At(path+".virtual_hosts", i)
		owner.filters = []filterLevel{t.filterLevel(vh.GetTypedPerFilterConfig(), vhPath), tableFilters}
		host := &model.VirtualHost{
			Name:    vh.GetName(),
			Domains: t.domains(vh.GetDomains(), vhPath+".domains", domains),
			Changes: t.headers.Level(vh, vhPath),
		}
		owner.retry, owner.countAttempts = t.retry(vh.GetRetryPolicy(), vhPath), vh.GetIncludeRequestAttemptCount()
		owner.mirrors = tableMirrors
		if own := vh.GetRequestMirrorPolicies(); len(own) > 0 {
			owner.mirrors = t.mirrors(own, vhPath)
		}
		for j, r := range vh.GetRoutes() {
			host.Routes = append(host.Routes, t.route(r, owner, problem.At(vhPath+".routes", j)))
		}
		out.VirtualHosts = append(out.VirtualHosts, host)
	}
	out.OrderChanges()
	return out
}

// routeOwner is what a route takes from what it is part of.
type routeOwner struct {
	// upgrades of the connection manager.
	upgrades upgrades
	// directBody bounds bodies of direct_response, in bytes.
	directBody uint32
	// filters of what the route is part of, the most specific first.
	filters []filterLevel
	// mirrors of routes that name none.
	mirrors []model.Mirror
	// retry is the policy of routes that have none; nil is none.
	retry *model.Retry
	// idle is the connection manager's, as in model.Route.
	idle time.Duration
	// longest is max_stream_duration of the connection manager.
	longest time.Duration
	// countAttempts is the virtual host's include_request_attempt_count.
	countAttempts bool
}

// domains checks one virtual host's domains against all of the table, which
// seen holds with their paths.
func (t *translator) domains(in []string, path string, seen map[string]string) []string {
	out := make([]string, 0, len(in))
	for i, d := range in {
		domainPath := problem.At(path, i)
		domain := ascii.Lower(d)
		switch first, twice := seen[domain]; {
		case domain == "":
			t.p.Add(domainPath, `empty: name a domain, or "*" for all`)
		case strings.Count(domain, "*") > 1 || strings.Contains(strings.Trim(domain, "*"), "*"):
			t.p.Add(domainPath, `%q: one "*" may stand at the beginning or at the end`, d)
		case twice:
			t.p.Add(domainPath, "%q is also at %s; keep one", d, strings.TrimPrefix(first, "."))
		}
		seen[domain] = domainPath
		out = append(out, domain)
	}
	return out
}

func (t *translator) route(r *routev3.Route, owner routeOwner, path string) *model.Route {
	out := &model.Route{Name: r.GetName(), Changes: t.headers.Level(r, path)}
	t.match(r.GetMatch(), out, path+".match")
	owner.filters = append([]filterLevel{t.filterLevel(r.GetTypedPerFilterConfig(), path)}, owner.filters...)
	out.Filters = t.routeFilters(owner.filters)
	switch a := r.GetAction().(type) {
	case *routev3.Route_Route:
		t.forward(out, a.Route, owner, path+".route")
	case *routev3.Route_DirectResponse:
		out.Direct = t.directResponse(a.DirectResponse, owner.directBody, path+".direct_response")
		t.routeUpgrades(out, nil, owner.upgrades, path)
	case *routev3.Route_Redirect:
		out.Redirect = t.redirect(a.Redirect, path+".redirect")
		t.routeUpgrades(out, nil, owner.upgrades, path)
	default:
		t.p.Add(path+".route", "missing: name the cluster to send to, or answer with redirect or direct_response")
	}
	if out.IsLocal() {
		out.Filters.CORS = nil    // as in Envoy, whose filter looks at routes to clusters only
		out.Filters.Session = nil // there is no endpoint to stay with
	}
	return out
}

// forward translates the action that sends requests to clusters.
func (t *translator) forward(out *model.Route, action *routev3.RouteAction, owner routeOwner, path string) {
	out.Timeout = t.Duration(action.GetTimeout(), model.DefaultRouteTimeout, path+".timeout")
	t.routeUpgrades(out, action, owner.upgrades, path+".upgrade_configs")
	out.Rewrite = t.pathRewrite(action, path)
	out.Host = t.hostRewrite(action, path)
	out.Idle = t.idle(action.GetIdleTimeout(), owner.idle, path+".idle_timeout")
	t.longest(out, action.GetMaxStreamDuration(), owner.longest, path+".max_stream_duration")
	out.Priority = values.Priority(action.GetPriority())
	out.Retry, out.CountAttempts = owner.retry, owner.countAttempts
	if own := action.GetRetryPolicy(); own != nil {
		out.Retry = t.retry(own, path)
	}
	out.Mirrors = owner.mirrors
	if own := action.GetRequestMirrorPolicies(); len(own) > 0 {
		out.Mirrors = t.mirrors(own, path)
	}
	out.Hash = t.hashPolicies(action.GetHashPolicy(), path+".hash_policy")
	t.clusterChoice(out, action, owner, path)
}

// idle translates an idle timeout, of which 0 is none.
func (t *translator) idle(d *durationpb.Duration, absent time.Duration, path string) time.Duration {
	out := t.Duration(d, absent, path)
	switch {
	case d == nil:
		return absent
	case out == 0:
		return model.NoIdle
	}
	return out
}

// mirrors translates one level's policies, without those that copy nothing.
func (t *translator) mirrors(in []*routev3.RouteAction_RequestMirrorPolicy, path string) []model.Mirror {
	var out []model.Mirror
	for i, p := range in {
		place := problem.At(path+".request_mirror_policies", i)
		m := model.Mirror{
			Cluster: p.GetCluster(), KeepHost: p.GetDisableShadowHostSuffixAppend(),
			Host: t.host(p.GetHostRewriteLiteral(), place+".host_rewrite_literal"),
		}
		switch {
		case p.GetClusterHeader() == "":
			t.clusterMissing(m.Cluster, place+".cluster")
		case m.Cluster != "":
			t.p.Add(place+".cluster_header", "set together with cluster, which Envoy refuses; keep one")
		default:
			m.Header = t.headers.Name(p.GetClusterHeader(), place+".cluster_header")
		}
		if f := p.GetRuntimeFraction(); f != nil {
			m.Share = values.Fraction(f.GetDefaultValue())
		}
		if !m.Share.Never() {
			out = append(out, m)
		}
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

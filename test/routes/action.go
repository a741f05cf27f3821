// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ActionTable is a table of routes that do all that routes can do. Each is found
// by its own path, so that none hides another.
type ActionTable struct {
	// Config is a RouteConfiguration.
	Config Object
	// Filters before the router.
	Filters []any
	// paths lead to the routes, or to none.
	paths []string
}

// ActionClusters are those that the tables name. The last has no endpoints that listen.
var ActionClusters = []string{"a", "b", "dead"}

// MirrorClusters are those that get copies of requests.
var MirrorClusters = []string{"mirror-a", "mirror-b"}

// ActionTable draws a table.
func (w World) ActionTable() *ActionTable {
	t := &ActionTable{paths: []string{"/none"}, Filters: w.httpFilters()}
	var hosts []any
	for i, domain := range []string{"a.test", "*"} {
		routes := []any{}
		for j := range 12 {
			routes = append(routes, w.actionRoute(t, fmt.Sprintf("/%c%d", 'A'+i, j)))
		}
		host := Object{"name": fmt.Sprintf("vh-%d", i), "domains": []any{domain}, "routes": routes}
		w.headerChanges(host)
		w.filterConfigs(t, host)
		w.mirrors(host)
		hosts = append(hosts, host)
	}
	t.Config = Object{"name": "table", "virtual_hosts": hosts}
	w.headerChanges(t.Config)
	w.filterConfigs(t, t.Config)
	w.mirrors(t.Config)
	if w.oneIn(2) {
		t.Config["most_specific_header_mutations_wins"] = true
	}
	return t
}

// actionRoute draws a route that is found below a path.
func (w World) actionRoute(t *ActionTable, at string) Object {
	route := Object{"match": w.matchAt(t, at)}
	if w.oneIn(2) {
		route["name"] = "route" + at[1:]
	}
	switch w.IntN(5) {
	case 0:
		route["direct_response"] = w.directResponse()
	case 1, 2:
		route["redirect"] = w.redirect()
	default:
		route["route"] = w.forward(t)
	}
	w.headerChanges(route)
	w.filterConfigs(t, route)
	return route
}

// matchAt draws a match that is found at a path, and notes paths that do.
func (w World) matchAt(t *ActionTable, at string) Object {
	switch w.IntN(6) {
	case 0:
		t.paths = append(t.paths, at)
		return Object{"path": at}
	case 1:
		t.paths = append(t.paths, at, at+"/x", at+"//x/y")
		return Object{"path_separated_prefix": at}
	case 2:
		t.paths = append(t.paths, at+"/1", at+"/22/b", at+"/a-b/a")
		return Object{"safe_regex": Object{"regex": at + "/.*"}}
	case 3:
		t.paths = append(t.paths, strings.ToLower(at)+"/x", at+"y")
		return Object{"prefix": at, "case_sensitive": false}
	default:
		t.paths = append(t.paths, at+"/", at+"/a/b", at+"x")
		return Object{"prefix": at + pick(w, []string{"", "/"})}
	}
}

func (w World) directResponse() Object {
	direct := Object{"status": pick(w, []int{200, 200, 201, 204, 301, 304, 403, 404, 429, 500, 503, 599})}
	if status := direct["status"]; w.oneIn(2) && status != 204 && status != 304 {
		direct["body"] = Object{"inline_string": pick(w, []string{"a body", "{}", "é", strings.Repeat("long ", 500)})}
	}
	return direct
}

func (w World) redirect() Object {
	r := Object{}
	switch w.IntN(5) {
	case 0:
		r["https_redirect"] = true
	case 1:
		r["scheme_redirect"] = pick(w, []string{"https", "http", "HTTP", "x"})
	}
	if w.oneIn(4) {
		r["host_redirect"] = pick(w, []string{"other.test", "other.test:81", "[::2]"})
	}
	if w.oneIn(4) {
		r["port_redirect"] = pick(w, []int{80, 443, 8443})
	}
	switch w.IntN(5) {
	case 0:
		r["path_redirect"] = pick(w, []string{"/there", "/there?a=b", "there", "/there?", "/#f"})
	case 1:
		r["prefix_rewrite"] = w.prefixRewrite()
	case 2:
		r["regex_rewrite"] = w.regexRewrite()
	}
	if w.oneIn(3) {
		r["strip_query"] = true
	}
	if w.oneIn(2) {
		r["response_code"] = pick(w, []string{"MOVED_PERMANENTLY", "FOUND", "SEE_OTHER", "TEMPORARY_REDIRECT", "PERMANENT_REDIRECT"})
	}
	return r
}

func (w World) prefixRewrite() string {
	return pick(w, []string{"/", "/new", "/new/", "/longer/than/it/was", "//"})
}

func (w World) regexRewrite() Object {
	r := pick(w, [][2]string{
		{"^/([A-Z])([0-9]+)", `/\2/\1`}, {"/", "//"}, {"x*", "/"}, {"[a-b]", `[\0]`}, {"(a)|(b)", `\1\\\2`}, {"$", "/end"}, {"^", "/begin"}, {"none", "never"}, {"^/[A-Z][0-9]*$", ""},
	})
	return Object{"pattern": Object{"regex": r[0]}, "substitution": r[1]}
}

// forward draws an action that sends to a cluster.
func (w World) forward(t *ActionTable) Object {
	action := Object{"cluster": pick(w, ActionClusters)}
	switch w.IntN(6) {
	case 0:
		action = Object{"weighted_clusters": w.weightedClusters(t)}
	case 1:
		action = Object{"cluster_header": pick(w, []string{"x-cluster", "X-Cluster", ":authority", "host", "user-agent"})}
	}
	if w.oneIn(4) {
		action["cluster_not_found_response_code"] = pick(w, []string{"SERVICE_UNAVAILABLE", "NOT_FOUND", "INTERNAL_SERVER_ERROR"})
	}
	switch w.IntN(4) {
	case 0:
		action["prefix_rewrite"] = w.prefixRewrite()
	case 1:
		action["regex_rewrite"] = w.regexRewrite()
	}
	switch w.IntN(6) {
	case 0:
		action["host_rewrite_literal"] = pick(w, []string{"other.test", "other.test:81"})
	case 1:
		action["host_rewrite_header"] = pick(w, []string{"x-rewrite", "X-Other"})
	case 2:
		action["host_rewrite_path_regex"] = Object{"pattern": Object{"regex": "^/([a-zA-Z0-9]*).*"}, "substitution": pick(w, []string{`\1.test`, "there"})}
	}
	if w.oneIn(3) {
		action["append_x_forwarded_host"] = true
	}
	w.mirrors(action)
	return action
}

// weightedClusters draws shares among which chance does not decide.
func (w World) weightedClusters(t *ActionTable) Object {
	first, second := w.share(t), w.share(t)
	if w.oneIn(2) {
		first["weight"] = 0
		return Object{"clusters": []any{first, second}}
	}
	return Object{"header_name": pick(w, []string{"x-draw", "X-Draw"}), "clusters": []any{first, second}}
}

func (w World) share(t *ActionTable) Object {
	share := Object{"name": pick(w, ActionClusters), "weight": 1 + w.IntN(9)}
	if w.oneIn(4) {
		delete(share, "name")
		share["cluster_header"] = "x-cluster"
	}
	if w.oneIn(3) {
		share["host_rewrite_literal"] = "share.test"
	}
	w.headerChanges(share)
	w.filterConfigs(t, share)
	return share
}

// headerChanges adds changes of headers to a level of the configuration.
func (w World) headerChanges(level Object) {
	for _, direction := range []string{"request", "response"} {
		var add, remove []any
		for range max(0, w.IntN(6)-3) {
			add = append(add, w.headerSetting())
		}
		for range max(0, w.IntN(4)-2) {
			remove = append(remove, pick(w, changedHeaders))
		}
		if add != nil {
			level[direction+"_headers_to_add"] = add
		}
		if remove != nil {
			level[direction+"_headers_to_remove"] = remove
		}
	}
}

// changedHeaders are some that requests or responses have, and some that are made.
var changedHeaders = []string{"x-mine", "X-Host", "x-up", "x-list", "cache-control", "accept", "x-new", "X-New-Too", "x-forwarded-host", "x-cluster"}

// headerValues have every operator whose value two proxies share.
var headerValues = []string{
	"", "value", "a,b", "%PROTOCOL%", "<%REQ(X-Mine)%>", "%REQ(x-none)%", "[%REQ(x-none?X-Host)%]", "%REQ(:path)%", "%REQ(:authority):3%",
	"%REQ(:METHOD)% %REQ(:scheme)%", "%REQ(host)%", "%RESP(X-Up)%", "%RESP(x-none?x-list)%", "%RESP(:status)%", "%RESP(:status?x-up):2%",
	"%UPSTREAM_CLUSTER%", "%UPSTREAM_CLUSTER_RAW%", "%ROUTE_NAME%", "%UPSTREAM_HOST%", "%RESPONSE_CODE%", "%HOSTNAME%", "100%%",
	"%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%", "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%", "%DOWNSTREAM_LOCAL_ADDRESS%",
	"%DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT%", "%DOWNSTREAM_LOCAL_PORT%", "%ENVIRONMENT(HOME)%", "%ENVIRONMENT(XLB_NEVER_SET)%",
	"%REQ(accept)%", "é", "%START_TIME(%Y)%%REQ(x-mine):2%",
}

func (w World) headerSetting() Object {
	header := Object{"key": pick(w, changedHeaders), "value": pick(w, headerValues)}
	if w.oneIn(10) { // which host_rewrite_header may name
		header = Object{"key": "x-other", "value": pick(w, []string{"", "set.test", "%UPSTREAM_CLUSTER%.test", "%REQ(x-rewrite)%"})}
	}
	o := Object{"header": header}
	switch w.IntN(8) {
	case 0:
		o["append"] = w.oneIn(2)
	case 1, 2:
	default:
		o["append_action"] = pick(w, []string{"APPEND_IF_EXISTS_OR_ADD", "ADD_IF_ABSENT", "OVERWRITE_IF_EXISTS_OR_ADD", "OVERWRITE_IF_EXISTS"})
	}
	if w.oneIn(3) {
		o["keep_empty_value"] = true
	}
	return o
}

// ActionListener is an Envoy listener with the table. What Envoy adds unasked, and
// can be told not to, is switched off.
func ActionListener(t *ActionTable, name string, address netip.AddrPort) Object {
	router := Object{"@type": typeURL + "http.router.v3.Router", "suppress_envoy_headers": true}
	manager := Object{
		"@type": typeURL + "network.http_connection_manager.v3.HttpConnectionManager", "stat_prefix": name, "route_config": t.Config,
		"generate_request_id": false, "server_header_transformation": "PASS_THROUGH", "skip_xff_append": true,
		"http_filters": append(slices.Clone(t.Filters), Object{"name": "envoy.filters.http.router", "typed_config": router}),
	}
	return Object{
		"name": name, "address": socketAddress(address),
		"filter_chains": []any{Object{"filters": []any{Object{
			"name": "envoy.filters.network.http_connection_manager", "typed_config": manager,
		}}}},
	}
}

// ActionRequest draws a request for one of the table's routes.
func (w World) ActionRequest(t *ActionTable) *Request {
	r := &Request{
		Method: pick(w, []string{"GET", "GET", "GET", "HEAD", "POST", "DELETE", "OPTIONS"}),
		Host:   pick(w, []string{"a.test", "A.test", "b.test", "b.test:80", "b.test:443", "b.test:8080", "[::1]", "[::1]:80"}),
		Target: pick(w, t.paths) + pick(w, []string{"", "", "?", "?a=b", "?a=b?c", "?/x"}),
	}
	if !w.oneIn(8) { // where the route is
		r.Host = pick(w, []string{"a.test", "A.test"})
		if strings.HasPrefix(strings.ToLower(r.Target), "/b") {
			r.Host = pick(w, []string{"b.test", "b.test:80", "b.test:443", "b.test:8080", "[::1]", "[::1]:80"})
		}
	}
	for range w.IntN(3) {
		w.header(r, pick(w, []string{"X-Host", "x-other", "X-Rewrite", "Accept", "X-Forwarded-Host", "X-Mine"}), pick(w, []string{"a.test", "x.test", "", "a.test,b.test", ",", "a.test,,"}))
	}
	if w.oneIn(6) {
		w.header(r, "X-Forwarded-Proto", pick(w, schemes))
	}
	if r.Method == http.MethodPost {
		r.Body = strings.Repeat("b", pick(w, []int{0, 1, 100, 5000}))
		w.header(r, "Content-Length", fmt.Sprint(len(r.Body)))
	}
	w.header(r, "X-Draw", fmt.Sprint(w.IntN(100)))
	for range w.IntN(3) {
		w.header(r, pick(w, []string{"X-Cluster", "X-Cluster", "User-Agent"}), pick(w, []string{"a", "b", "dead", "none", ""}))
	}
	w.filterHeaders(r)
	if w.oneIn(6) {
		w.header(r, "X-Forwarded-For", pick(w, []string{"10.0.0.1", "10.0.0.1, 10.0.0.2", "fd00::1", "unknown", "10.0.0.1,"}))
	}
	if w.oneIn(12) {
		r.Scheme = pick(w, schemes[:4])
	}
	return r
}

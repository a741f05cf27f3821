// SPDX-License-Identifier: Apache-2.0

package routes

const (
	corsName  = "envoy.filters.http.cors"
	faultName = "envoy.filters.http.fault"
)

// httpFilters draws the filters before the router, in any order.
func (w World) httpFilters() []any {
	cors := Object{"name": corsName, "typed_config": Object{"@type": typeURL + "http.cors.v3.Cors"}}
	fault := Object{"name": faultName, "typed_config": Object{"@type": typeURL + "http.fault.v3.HTTPFault"}}
	if w.oneIn(8) {
		fault["typed_config"] = w.fault()
	}
	return pick(w, [][]any{nil, {cors}, {fault}, {cors, fault}, {fault, cors}})
}

// filterConfigs adds what one level of the configuration says to the table's filters.
func (w World) filterConfigs(t *ActionTable, level Object) {
	configs := Object{}
	for _, f := range t.Filters {
		switch name := f.(Object)["name"].(string); {
		case name == corsName && w.oneIn(3):
			configs[name] = w.cors()
		case name == faultName && w.oneIn(10):
			configs[name] = w.fault()
		}
	}
	if len(configs) > 0 {
		level["typed_per_filter_config"] = configs
	}
}

var corsOrigins = []any{
	Object{"exact": "http://a.test"}, Object{"prefix": "http://b."}, Object{"suffix": ".test"}, Object{"exact": "*"},
	Object{"safe_regex": Object{"regex": "https?://.*"}}, Object{"exact": "HTTP://A.TEST", "ignore_case": true},
}

func (w World) cors() Object {
	o := Object{"@type": typeURL + "http.cors.v3.CorsPolicy"}
	var origins []any
	for range w.IntN(3) {
		origins = append(origins, pick(w, corsOrigins))
	}
	if origins != nil {
		o["allow_origin_string_match"] = origins
	}
	for _, text := range [][]string{
		{"allow_methods", "GET", "GET, PUT", "*"}, {"allow_headers", "x-a", "*"}, {"expose_headers", "x-up", "x-up,x-b"}, {"max_age", "0", "100"},
	} {
		if w.oneIn(2) {
			o[text[0]] = pick(w, text[1:])
		}
	}
	for _, name := range []string{"allow_credentials", "allow_private_network_access", "forward_not_matching_preflights"} {
		if w.oneIn(3) {
			o[name] = w.oneIn(2)
		}
	}
	for _, name := range []string{"filter_enabled", "shadow_enabled"} {
		if w.oneIn(5) {
			o[name] = Object{"default_value": Object{"numerator": pick(w, []int{0, 100})}}
		}
	}
	return o
}

// fault draws faults that chance does not decide about.
func (w World) fault() Object {
	o := Object{"@type": typeURL + "http.fault.v3.HTTPFault"}
	share := func() Object { return Object{"numerator": pick(w, []int{0, 100, 100})} }
	if w.oneIn(3) {
		o["delay"] = Object{"fixed_delay": "0.002s", "percentage": share()}
	}
	if w.oneIn(2) {
		abort := Object{"http_status": pick(w, []int{200, 404, 418, 503}), "percentage": share()}
		if w.oneIn(3) {
			abort["response_body"] = "broken on purpose"
		}
		o["abort"] = abort
	}
	if w.oneIn(4) {
		o["upstream_cluster"] = pick(w, ActionClusters)
	}
	if w.oneIn(3) {
		o["headers"] = []any{Object{"name": "x-fault", "string_match": Object{"exact": "1"}, "invert_match": w.oneIn(2)}}
	}
	return o
}

// filterHeaders draws what the filters look at.
func (w World) filterHeaders(r *Request) {
	if w.oneIn(3) {
		w.header(r, "Origin", pick(w, []string{"http://a.test", "http://b.test", "https://c.test", "http://A.test", "null", ""}))
		if w.oneIn(2) {
			w.header(r, "Access-Control-Request-Method", pick(w, []string{"GET", "PUT", ""}))
		}
		for range w.IntN(3) {
			w.header(r, "Access-Control-Request-Headers", pick(w, []string{"x-a", "X-B,x-c", ""}))
		}
		if w.oneIn(3) {
			w.header(r, "Access-Control-Request-Private-Network", pick(w, []string{"true", "false"}))
		}
		if w.oneIn(2) {
			r.Method = "OPTIONS"
		}
	}
	if w.oneIn(3) {
		w.header(r, "X-Mirror", pick(w, []string{"mirror-a", "mirror-b", "none", ""}))
	}
	if w.oneIn(3) {
		w.header(r, "X-Fault", pick(w, []string{"1", "0"}))
	}
}

// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/xlb-project/xlb/internal/compile"
)

// TestFiltersWithoutEffectCostNothing compiles tables with the filters that istiod always writes, and without.
func TestFiltersWithoutEffectCostNothing(t *testing.T) {
	const cors, fault = "http.cors.v3.", "http.fault.v3."
	w := NewWorld(*seed)
	var filters []any
	for name, kind := range map[string]string{corsName: cors + "Cors", faultName: fault + "HTTPFault"} {
		filters = append(filters, Object{"name": name, "typed_config": Object{"@type": typeURL + kind}})
	}
	without := Object{corsName: Object{"@type": typeURL + cors + "CorsPolicy", "allow_methods": "GET"}, faultName: Object{
		"@type": typeURL + fault + "HTTPFault", "abort": Object{"http_status": 503, "percentage": Object{"numerator": 0}},
	}}
	for range 20 {
		table := w.Table()
		var clusters []any
		for i := range table.Routes() {
			clusters = append(clusters, Object{"name": ClusterOf(i)})
		}
		toCluster := func(route int) Object { return Object{"route": Object{"cluster": ClusterOf(route)}} }
		listener := func(change func(manager Object)) Object {
			l := table.Listener("table", testAddress, toCluster)
			change(l["filter_chains"].([]any)[0].(Object)["filters"].([]any)[0].(Object)["typed_config"].(Object))
			return Object{"listeners": []any{l}, "clusters": clusters}
		}
		plain, notes := compile.Compile(parse(t, listener(func(Object) {})))
		filtered, more := compile.Compile(parse(t, listener(func(manager Object) {
			manager["http_filters"] = append(filters[:2:2], manager["http_filters"].([]any)...)
			manager["route_config"].(Object)["typed_per_filter_config"] = without
		})))
		if !reflect.DeepEqual(plain, filtered) || fmt.Sprint(notes) != fmt.Sprint(more) {
			t.Fatalf("the compiled form differs with filters that do nothing\n%s", table)
		}
	}
}

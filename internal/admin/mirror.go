// SPDX-License-Identifier: Apache-2.0

package admin

import "github.com/xlb-project/xlb/internal/model"

// addMirrors adds the policies of a route, wherever they were written.
func addMirrors(action object, mirrors []model.Mirror) {
	if len(mirrors) > 0 {
		action["request_mirror_policies"] = objects(mirrors, mirrorObject)
	}
}

// mirrorObject is envoy.config.route.v3.RouteAction.RequestMirrorPolicy.
func mirrorObject(m *model.Mirror) object {
	o := object{}
	for name, value := range map[string]string{"cluster": m.Cluster, "cluster_header": m.Header, "host_rewrite_literal": m.Host} {
		if value != "" {
			o[name] = value
		}
	}
	if m.Share.Denominator > 0 {
		o["runtime_fraction"] = object{"default_value": fractionObject(m.Share)}
	}
	if m.KeepHost {
		o["disable_shadow_host_suffix_append"] = true
	}
	return o
}

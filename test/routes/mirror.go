// SPDX-License-Identifier: Apache-2.0

package routes

// mirrors adds policies that copy requests to a level of the configuration.
func (w World) mirrors(level Object) {
	if !w.oneIn(6) {
		return
	}
	var policies []any
	for range 1 + w.IntN(2) {
		p := Object{"cluster": pick(w, MirrorClusters)}
		switch w.IntN(8) {
		case 0:
			p["runtime_fraction"] = Object{"default_value": Object{"numerator": pick(w, []int{0, 100})}}
		case 1:
			p["disable_shadow_host_suffix_append"] = true
		case 2:
			p["host_rewrite_literal"] = "copy.test"
		case 3:
			p = Object{"cluster_header": "x-mirror"}
		}
		policies = append(policies, p)
	}
	level["request_mirror_policies"] = policies
}

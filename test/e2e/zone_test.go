// SPDX-License-Identifier: Apache-2.0

package e2e

// nodeFields are those of a bootstrap whose node stands in a locality, with others in the cluster "nodes".
func nodeFields(locality map[string]any) map[string]any {
	return map[string]any{
		"node":            map[string]any{"id": "node", "cluster": "nodes", "locality": locality},
		"cluster_manager": map[string]any{"local_cluster_name": "nodes"},
	}
}

// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"slices"

	"github.com/xlb-project/xlb/internal/model"
)

// Merge returns a configuration in which the clusters with names that answers
// has have those endpoints. It changes neither argument; clusters that stay
// as they are, and listeners, are shared with cfg.
func Merge(cfg *model.Config, answers map[string][]model.Endpoint) *model.Config {
	merged := *cfg
	merged.Clusters = slices.Clone(cfg.Clusters)
	for i, c := range cfg.Clusters {
		endpoints, ok := answers[c.Name]
		if !ok || !c.Discovery.Named() {
			continue
		}
		resolved := *c
		resolved.Endpoints = slices.Clone(endpoints)
		merged.Clusters[i] = &resolved
	}
	return &merged
}

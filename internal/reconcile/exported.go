// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"github.com/xlb-project/xlb/internal/reconcile/clusters"
	"github.com/xlb-project/xlb/internal/reconcile/writes"
)

// What callers see of the packages below, under one name.
type (
	// Stats counts the writes of one Apply.
	Stats = writes.Stats
	// EndpointEntry is an endpoint in the maps.
	EndpointEntry = clusters.EndpointEntry
	// ClusterEntry is a cluster in the maps.
	ClusterEntry = clusters.ClusterEntry
	// HealthChange is what has been learned of one endpoint.
	HealthChange = clusters.HealthChange
	// Changes are what has changed of what Endpoints and Clusters list, but for shares.
	Changes = clusters.Changes
	// FullError says that there is no room for the endpoints of an image. Nothing of it was written.
	FullError = clusters.FullError
)

// RegroupPace is how often Regroup is to be called: so often the weights of a short window grow.
const RegroupPace = clusters.RegroupPace

// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"slices"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/workload"
)

// destinations are what was carried for each workload, by the names of clusters.
func (s *Status) destinations() map[workload.ID][]admin.Destination {
	by := map[workload.ID][]admin.Destination{}
	for to, t := range s.cfg.Carried() {
		by[to.Workload] = append(by[to.Workload], admin.Destination{
			Cluster: to.Cluster, Requests: t.Requests, RequestBytes: t.RequestBytes, ResponseBytes: t.ResponseBytes,
			SlowWorkSeconds: t.SlowWork.Seconds(), ProgramSeconds: t.ProgramTime.Seconds(),
		})
	}
	for _, list := range by {
		slices.SortFunc(list, func(a, b admin.Destination) int { return cmp.Compare(a.Cluster, b.Cluster) })
	}
	return by
}

func addDestinations(row *admin.Workload, list []admin.Destination) {
	row.Destinations = list
	for i := range list {
		row.Requests += list[i].Requests
		row.RequestBytes += list[i].RequestBytes
		row.ResponseBytes += list[i].ResponseBytes
		row.SlowWorkSeconds += list[i].SlowWorkSeconds
		row.ProgramSeconds += list[i].ProgramSeconds
	}
}

func destinationsOf(row *admin.Workload) []metrics.Destination {
	list := make([]metrics.Destination, len(row.Destinations))
	for i := range row.Destinations {
		list[i] = metrics.Destination(row.Destinations[i])
	}
	return list
}

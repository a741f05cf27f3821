// SPDX-License-Identifier: Apache-2.0

package metrics

import "strconv"

// Quota is a table that the workloads share: while others than the host are served, one may have as many entries as are left free.
type Quota struct {
	// Of says what an entry is; no two tables have one name.
	Of string `json:"of"`
	// Size is how many entries there may be, Taken how many there are.
	Size  uint64 `json:"size"`
	Taken uint64 `json:"taken"`
	// Refused counts those that there was no room for.
	Refused uint64 `json:"refused"`
}

// Use is what one workload has of a table, with the other workloads of its account.
type Use struct {
	Taken, Refused uint64
}

var (
	quotaSize = describe("xlb_quota_size",
		"Entries that a table may have which the workloads share: connections that are intercepted, i-socks, requests in user space, its idle connections, copies of requests, memory for heads and bodies of requests in blocks of 16 KiB, network namespaces, destinations of requests with series of their own. While others than the host are served, one may have as many as are left free; the host alone may have more than there are of what a descriptor is taken for.", "of")
	quotaTaken = describe("xlb_quota_taken",
		"Entries of that table in use.", "of")
	quotaRefused = describe("xlb_quota_refused_total",
		"How often a workload did not get an entry of that table: it had as many as were left free. Of isocks it counts attempts to open one, not requests, and of idle_connections those that took the place of another one of the workload.", "of")
	workloadQuotaTaken = describe("xlb_workload_quota_taken",
		"Entries of a table that a network namespace has, with others of the same pod or container, which have no series of their own.", "id", "workload", "of")
	workloadQuotaRefused = describe("xlb_workload_quota_refused_total",
		"How often it did not get an entry of a table, likewise; without a series where it got all.", "id", "workload", "of")
)

func (out emitter) quotas(all []Quota) {
	for i := range all {
		q := &all[i]
		out.gauge(quotaSize, q.Size, q.Of)
		out.gauge(quotaTaken, q.Taken, q.Of)
		out.counter(quotaRefused, q.Refused, q.Of)
	}
}

func (out emitter) uses(w *Workload) {
	id, name := strconv.FormatUint(uint64(w.ID), 10), labelText(w.Name)
	for of, use := range w.Uses {
		out.gauge(workloadQuotaTaken, use.Taken, id, name, of)
		if use.Refused > 0 {
			out.counter(workloadQuotaRefused, use.Refused, id, name, of)
		}
	}
}

func (l *list) addQuotas(all []Quota) {
	for i := range all {
		q, prefix := &all[i], "xlb.quota."+all[i].Of
		l.add(prefix+".size", q.Size)
		l.add(prefix+".taken", q.Taken)
		l.add(prefix+".refused", q.Refused)
	}
}

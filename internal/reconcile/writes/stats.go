// SPDX-License-Identifier: Apache-2.0

package writes

import "github.com/xlb-project/xlb/internal/maps/bpfmap"

// Stats counts the writes of one Apply, deletions included, per map. Those that
// failed do not count. Schedules, Groups, Clusters and Endpoints are shared memory: there it counts
// turns, groups, clusters that were pointed to another group, and endpoints that were begun, changed
// or marked. Paths are those in the trie and in the hash, VHosts the words that say where.
type Stats struct {
	VIPs, Listeners, RouteTables           int
	Hosts, VHosts, Paths, Fields           int
	Values, Prefixes                       int
	Tuples, Buckets, BucketLists           int
	Routes, Splits, Rewrites, RetrySets    int
	Automata, Cells, Accepts               int
	AcceptedValues                         int
	Schedules, Groups, Clusters, Endpoints int
}

// Total is the number of writes.
func (s *Stats) Total() int {
	return s.VIPs + s.Listeners + s.RouteTables + s.Hosts + s.VHosts + s.Paths + s.Fields +
		s.Values + s.Prefixes + s.Tuples + s.Buckets + s.BucketLists + s.Routes + s.Splits + s.Rewrites + s.RetrySets +
		s.Automata + s.Cells + s.Accepts + s.AcceptedValues + s.Schedules + s.Groups + s.Clusters + s.Endpoints
}

// Put writes an entry and counts it.
func Put[K comparable, V any](count *int, t bpfmap.Table[K, V], k K, v V) error {
	if err := t.Put(k, v); err != nil {
		return err
	}
	*count++
	return nil
}

// Remove deletes an entry and counts it.
func Remove[K comparable, V any](count *int, t bpfmap.Table[K, V], k K) error {
	if err := t.Delete(k); err != nil {
		return err
	}
	*count++
	return nil
}

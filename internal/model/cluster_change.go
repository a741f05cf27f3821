// SPDX-License-Identifier: Apache-2.0

package model

// ClusterChange is where two lists of clusters differ: before and behind that they have the same, by their pointers.
type ClusterChange struct {
	// First is the index of the first difference in both lists.
	First int
	// Removed stand there in the one list, Added in the other. A cluster that has moved in the list stands in both.
	Removed, Added []*Cluster
}

// ChangeOf compares pointers: what has been put in force is never changed.
func ChangeOf(before, now []*Cluster) ClusterChange {
	first, last := 0, 0
	shorter := min(len(before), len(now))
	for first < shorter && before[first] == now[first] {
		first++
	}
	for last < shorter-first && before[len(before)-1-last] == now[len(now)-1-last] {
		last++
	}
	return ClusterChange{First: first, Removed: before[first : len(before)-last], Added: now[first : len(now)-last]}
}

// Lost are the clusters whose keys no cluster has any more.
func (c *ClusterChange) Lost() []*Cluster {
	keys := make(map[ClusterKey]struct{}, len(c.Added))
	for _, added := range c.Added {
		keys[added.Key()] = struct{}{}
	}
	var lost []*Cluster
	for _, removed := range c.Removed {
		if _, stays := keys[removed.Key()]; !stays {
			lost = append(lost, removed)
		}
	}
	return lost
}

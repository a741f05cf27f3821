// SPDX-License-Identifier: Apache-2.0

// Package clusters brings the shared arrays of clusters, groups and endpoints from what they hold to what is compiled and to what is
// learned of the endpoints' health, while programs read them.
//
// A cluster's groups are written first, each behind the groups that it leads to, and then the cluster's word is pointed to them by one
// store. A group of many endpoints is changed in place when few of its entries change (schedule.go). Clusters and
// endpoints keep their index for as long as they exist. What nothing leads to any more is pending: the caller takes it, waits
// for the programs that may still read it, and has it freed.
//
// All of it is shared memory: the package writes no map, and waits for no program.
package clusters

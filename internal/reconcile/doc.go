// SPDX-License-Identifier: Apache-2.0

// Package reconcile brings the kernel's maps from the configuration they hold to
// the one that is wanted, while programs read them.
//
// Nothing that a program can reach is changed in place. A changed route table is
// written as a new version under new numbers, children first, and its listener then
// switched to it by one store; a cluster's schedule likewise. What was switched away
// from is unlinked: it is erased, and its numbers are used again, only after every
// program that may still read it has ended. A request thus sees one version of its
// route table and one of its cluster, whole.
//
// Clusters and endpoints keep their index for as long as they exist, because counters
// and pools belong to it. A failing write leaves every listener with a whole version,
// old or new; the next Apply starts from what was really done.
package reconcile

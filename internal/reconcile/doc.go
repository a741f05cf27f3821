// SPDX-License-Identifier: Apache-2.0

// Package reconcile brings the kernel's maps from the configuration they hold to
// the one that is wanted, while programs read them.
//
// Each request is decided by the old route table or by the new one, never by a mix; requests may
// switch at slightly different moments.
//
// The package orders what others write: clusters, with their groups and endpoints, come first (package clusters), then route tables
// (package routes), then the listener is switched to its table by one store, and its addresses are written last. What
// goes is taken away in the opposite order, and erased when every program that may still read it has ended.
//
// Clusters and endpoints keep their index for as long as they exist, because counters
// and pools belong to it. After a failing write each request is decided by the old table or by the new one;
// the next Apply starts from what was really done.
package reconcile

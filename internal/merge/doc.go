// SPDX-License-Identifier: Apache-2.0

// Package merge makes one configuration of those of all views, in which a cluster stands once that several views have. It is pure: what comes out
// depends on what went in, and on the time it is given.
//
// Clusters of one name are in groups: those that are the same but for their view are one group, and one cluster of what is in force. A group keeps its key as long
// as some view is in it, so that no view's change makes the cluster of others a new one, with cold pools and endpoints of unknown health.
//
// The same change reaches views at several moments: each has a stream, or a watch over files, of its own. So a view whose cluster has changed waits for the
// others of its group. Once all say the same the cluster is changed in place, as that of one view is. When the time is up the view leaves the group: its cluster
// begins with what is known of the endpoints (model.Common.From). Groups that have become equal join, the one of fewer views into the other, but not while one of them
// is young: a view that is always late would come and go with cold pools.
//
// A change may fail half way, after which some tables of routes lead to its clusters, others to those of before (Merger.Tried). Until a change is whole the next one
// gives no key another content that either of them has given it, unless all views say the same whose tables may lead there.
package merge

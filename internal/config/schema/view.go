// SPDX-License-Identifier: Apache-2.0

package schema

const ofTheDaemon = "it belongs in the bootstrap of the daemon (--config); remove it here"

// viewFields are what the bootstrap of a view may not have though that of the daemon may, wherever they are: what is the host's, of which there is one for
// all views.
var viewFields = fieldTable{
	"envoy.config.bootstrap.v3.Bootstrap": {
		"admin":            refuse("the daemon has one admin API for all views; " + ofTheDaemon),
		"overload_manager": refuse("the daemon has one limit of connections for all views; " + ofTheDaemon),
	},
	"envoy.config.bootstrap.v3.ClusterManager": {
		"local_cluster_name": refuse("a view has no zone-aware routing yet; remove the field"),
	},
}

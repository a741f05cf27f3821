// SPDX-License-Identifier: Apache-2.0

package schema

const (
	ofTheDaemon = "it belongs in the bootstrap of the daemon (--config); remove it here"
	filesAlone  = "a view has no control plane yet; name resources in static_resources, or in files (path_config_source)"
)

// viewFields are what the bootstrap of a view may not have though that of the daemon may, wherever they are: what is the host's, of which there is one for
// all views, and what comes from servers.
var viewFields = fieldTable{
	"envoy.config.bootstrap.v3.Bootstrap": {
		"admin":            refuse("the daemon has one admin API for all views; " + ofTheDaemon),
		"overload_manager": refuse("the daemon has one limit of connections for all views; " + ofTheDaemon),
	},
	"envoy.config.bootstrap.v3.Bootstrap.DynamicResources": {
		"ads_config": refuse(filesAlone),
	},
	"envoy.config.bootstrap.v3.ClusterManager": {
		"local_cluster_name": refuse("a view has no zone-aware routing yet; remove the field"),
	},
	"envoy.config.core.v3.ConfigSource": {
		"ads":               refuse(filesAlone),
		"api_config_source": refuse(filesAlone),
		"self":              refuse(filesAlone),
	},
}

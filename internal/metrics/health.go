// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// namedStat is one of Envoy's statistics of a cluster that comes by its name.
type namedStat struct {
	// name is Envoy's, below cluster.<name>.
	name  string
	gauge bool
	desc  *prometheus.Desc
}

func counterOf(name, help string) namedStat { return namedStatOf(name, help, false) }

func namedStatOf(name, help string, gauge bool) namedStat {
	full := "envoy_cluster_" + strings.ReplaceAll(name, ".", "_")
	return namedStat{name, gauge, describe(full, help, clusterLabel)}
}

// healthStats are all there are, in the order in which a reader asks for them.
var healthStats = []namedStat{
	namedStatOf("outlier_detection.ejections_active", "Endpoints of a cluster that are ejected now.", true),
	counterOf("outlier_detection.ejections_enforced_total", "Ejections of endpoints, for whatever reason."),
	counterOf("outlier_detection.ejections_overflow", "Ejections that max_ejection_percent forbade."),
	counterOf("outlier_detection.ejections_enforced_consecutive_5xx", "Ejections by 5xx in a row."),
	counterOf("outlier_detection.ejections_detected_consecutive_5xx", "The same, enforced or not."),
	counterOf("outlier_detection.ejections_enforced_consecutive_gateway_failure", "Ejections by gateway failures in a row."),
	counterOf("outlier_detection.ejections_detected_consecutive_gateway_failure", "The same, enforced or not."),
	counterOf("outlier_detection.ejections_enforced_consecutive_local_origin_failure", "Ejections by failed connections in a row."),
	counterOf("outlier_detection.ejections_detected_consecutive_local_origin_failure", "The same, enforced or not."),
	counterOf("outlier_detection.ejections_enforced_success_rate", "Ejections by success rates far below the others'."),
	counterOf("outlier_detection.ejections_detected_success_rate", "The same, enforced or not."),
	counterOf("outlier_detection.ejections_enforced_local_origin_success_rate", "Ejections by success rates of connections."),
	counterOf("outlier_detection.ejections_detected_local_origin_success_rate", "The same, enforced or not."),
	counterOf("outlier_detection.ejections_enforced_failure_percentage", "Ejections by the share of failures."),
	counterOf("outlier_detection.ejections_detected_failure_percentage", "The same, enforced or not."),
	counterOf("outlier_detection.ejections_enforced_local_origin_failure_percentage", "Ejections by the share of failed connections."),
	counterOf("outlier_detection.ejections_detected_local_origin_failure_percentage", "The same, enforced or not."),
	counterOf("health_check.attempt", "Active health checks that were begun."),
	counterOf("health_check.success", "Active health checks that have passed."),
	counterOf("health_check.failure", "Active health checks that have failed, in whatever way."),
	counterOf("health_check.network_failure", "Active health checks that found no connection, or no answer in time."),
	namedStatOf("health_check.healthy", "Endpoints of a cluster that pass their health checks.", true),
	namedStatOf("health_check.degraded", "Endpoints of a cluster that call themselves degraded.", true),
}

// named writes those statistics that there are.
func (out emitter) named(all []namedStat, values map[string]uint64, cluster string) {
	for _, s := range all {
		value, ok := values[s.name]
		switch {
		case !ok:
		case s.gauge:
			out.gauge(s.desc, value, cluster)
		default:
			out.counter(s.desc, value, cluster)
		}
	}
}

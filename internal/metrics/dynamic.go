// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// dynamicStat is a statistic of dynamic resources. Its name is Envoy's, or begins with "xlb.".
type dynamicStat struct {
	name  string
	gauge bool
	desc  *prometheus.Desc
}

func dynamicCounter(name, help string) dynamicStat {
	return dynamicStat{name, false, describe(prometheusName(name), help)}
}

func dynamicGauge(name, help string) dynamicStat {
	return dynamicStat{name, true, describe(prometheusName(name), help)}
}

func prometheusName(name string) string {
	full := strings.ReplaceAll(name, ".", "_")
	if strings.HasPrefix(name, "xlb.") {
		return full + "_total"
	}
	return "envoy_" + full
}

const connectedState = "control_plane.connected_state"

// dynamicStats are all there are, in the order in which a reader asks for them.
var dynamicStats = append([]dynamicStat{
	{connectedState, true, describe("envoy_control_plane_connected_state", "1 while there is a stream to the control plane, and to that of each view which has one.")},
	dynamicCounter("xlb.dynamic.updates", "Changes of dynamic resources that were put in force."),
	dynamicCounter("xlb.dynamic.writes", "Entries of the kernel's maps, and words of the memory shared with it, that were written or deleted to put configurations in force."),
	dynamicCounter("xlb.dynamic.rejected", "Changes of dynamic resources that could not be put in force, or files of them that could not be read."),
	dynamicCounter("xlb.dynamic.partial", "Changes of dynamic resources that were put in force without some of them, which do not go with others."),
	dynamicCounter("xlb.dynamic.resources.refused", "Dynamic resources that were refused on their own, each time they came."),
}, append(updateStats("cluster_manager.cds", "clusters"), updateStats("listener_manager.lds", "listeners")...)...)

// updateStats are those of the responses of one kind.
func updateStats(prefix, kind string) []dynamicStat {
	return []dynamicStat{
		dynamicCounter(prefix+".update_attempt", "Responses of the control plane with "+kind+", or looks at a changed file of them."),
		dynamicCounter(prefix+".update_success", "Responses or files with "+kind+" that were accepted."),
		dynamicCounter(prefix+".update_rejected", "Responses or files with "+kind+" of which something was refused."),
		dynamicCounter(prefix+".update_failure", "Streams to the control plane that were lost, or files of "+kind+" that could not be read."),
		dynamicGauge(prefix+".update_time", "When "+kind+" were last accepted, in milliseconds since 1970."),
		dynamicGauge(prefix+".version", "Envoy's hash of the version of the "+kind+" in force."),
	}
}

// dynamic writes those statistics that there are.
func (out emitter) dynamic(values map[string]uint64) {
	for _, s := range dynamicStats {
		value, ok := values[s.name]
		switch {
		case !ok:
		case s.gauge:
			out.gauge(s.desc, value)
		default:
			out.counter(s.desc, value)
		}
	}
}

// JoinDynamic has the statistics of dynamic resources of several views together: sums, for each kind when something was last accepted, with the version of
// that, and whether all that have a control plane are connected. Views without dynamic resources are nil; nil: all are.
func JoinDynamic(views []map[string]uint64) map[string]uint64 {
	var out map[string]uint64
	for _, stats := range views {
		if out == nil {
			out = maps.Clone(stats)
			continue
		}
		joinDynamic(out, stats)
	}
	return out
}

func joinDynamic(out, stats map[string]uint64) {
	for name, value := range stats {
		before, known := out[name]
		kind, isVersion := strings.CutSuffix(name, ".version")
		switch {
		case !known:
			out[name] = value
		case name == connectedState:
			out[name] = min(before, value)
		case isVersion && stats[kind+updateTime] > out[kind+updateTime]:
			out[name] = value
		case isVersion, strings.HasSuffix(name, updateTime):
		default:
			out[name] += value
		}
	}
	// Behind the versions, which compare them.
	for name, value := range stats {
		if strings.HasSuffix(name, updateTime) {
			out[name] = max(out[name], value)
		}
	}
}

// CountersOf are those of the statistics of dynamic resources that only grow.
func CountersOf(stats map[string]uint64) map[string]uint64 {
	out := maps.Clone(stats)
	maps.DeleteFunc(out, func(name string, _ uint64) bool {
		return name == connectedState || strings.HasSuffix(name, ".version") || strings.HasSuffix(name, updateTime)
	})
	return out
}

const updateTime = ".update_time"

// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Updates are Envoy's statistics of a subscription (ALL_SUBSCRIPTION_STATS), as far as XLB has them.
type Updates struct {
	Successes uint64 `json:"successes"`
	Rejected  uint64 `json:"rejected"`
	Failures  uint64 `json:"failures"`
	// Time is that of the last success in milliseconds since 1970, Version Envoy's hash of the version that came with it; 0: there was none.
	Time    uint64 `json:"time"`
	Version uint64 `json:"version"`
}

// add adds those of another subscription of the same name.
func (u *Updates) add(other *Updates) {
	u.Successes += other.Successes
	u.Rejected += other.Rejected
	u.Failures += other.Failures
	if other.Time > u.Time {
		u.Time, u.Version = other.Time, other.Version
	}
}

// With is the sum of both; nil stands for none.
func (u *Updates) With(other *Updates) *Updates {
	switch {
	case other == nil:
		return u
	case u == nil:
		return other
	}
	sum := *u
	sum.add(other)
	return &sum
}

// Subscription is one of a route table or of a secret.
type Subscription struct {
	// Prefix is the stat_prefix of the listener that has the table; empty for a secret.
	Prefix string `json:"prefix,omitempty"`
	Name   string `json:"name"`
	Updates
}

// updateStat is one of them.
type updateStat struct {
	name, help string
	gauge      bool
	value      func(*Updates) uint64
}

var eachUpdateStat = []updateStat{
	{"update_attempt", "Responses, or looks at a changed file, with %s.", false, func(u *Updates) uint64 { return u.Successes + u.Rejected + u.Failures }},
	{"update_success", "Those with %s that were accepted.", false, func(u *Updates) uint64 { return u.Successes }},
	{"update_rejected", "Those with %s that were refused.", false, func(u *Updates) uint64 { return u.Rejected }},
	{"update_failure", "Files with %s that could not be read.", false, func(u *Updates) uint64 { return u.Failures }},
	{"update_time", "When %s were last accepted, in milliseconds since 1970.", true, func(u *Updates) uint64 { return u.Time }},
	{"version", "Envoy's hash of the version of %s in force.", true, func(u *Updates) uint64 { return u.Version }},
}

// The same three times, with Envoy's names and labels.
var (
	clusterUpdates = describeUpdates("envoy_cluster_", "the endpoints of a cluster of type EDS", clusterLabel)
	tableUpdates   = describeUpdates("envoy_http_rds_", "a route table", "envoy_rds_route_config", "envoy_http_conn_manager_prefix")
	secretUpdates  = describeUpdates("envoy_sds_", "a secret", "envoy_xds_resource_name")
)

func describeUpdates(prefix, what string, labels ...string) []*prometheus.Desc {
	out := make([]*prometheus.Desc, len(eachUpdateStat))
	for i, s := range eachUpdateStat {
		out[i] = describe(prefix+s.name, strings.ReplaceAll(s.help, "%s", what), labels...)
	}
	return out
}

func (out emitter) updates(descs []*prometheus.Desc, u *Updates, labels ...string) {
	for i := range eachUpdateStat {
		s := &eachUpdateStat[i]
		if s.gauge {
			out.gauge(descs[i], s.value(u), labels...)
		} else {
			out.counter(descs[i], s.value(u), labels...)
		}
	}
}

// subscriptions writes those that belong to no cluster.
func (out emitter) subscriptions(s *Snapshot) {
	for _, t := range observedSubscriptions(s.RouteTables) {
		out.updates(tableUpdates, &t.Updates, t.Name, t.Prefix)
	}
	for _, secret := range observedSubscriptions(s.Secrets) {
		out.updates(secretUpdates, &secret.Updates, secret.Name)
	}
}

func (l *list) addUpdates(prefix string, u *Updates) {
	for i := range eachUpdateStat {
		l.add(prefix+eachUpdateStat[i].name, eachUpdateStat[i].value(u))
	}
}

func (l *list) addSubscriptions(s *Snapshot) {
	for _, t := range observedSubscriptions(s.RouteTables) {
		l.addUpdates("http."+t.Prefix+".rds."+t.Name+".", &t.Updates)
	}
	for _, secret := range observedSubscriptions(s.Secrets) {
		l.addUpdates("sds."+secret.Name+".", &secret.Updates)
	}
}

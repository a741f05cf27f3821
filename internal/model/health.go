// SPDX-License-Identifier: Apache-2.0

package model

import (
	"net/netip"
	"time"

	"github.com/xlb-project/xlb/internal/model/rewrite"
)

// OutlierDetection is envoy.config.cluster.v3.OutlierDetection with its defaults filled in. A percentage is 0 to 100.
type OutlierDetection struct {
	// Interval between analyses: endpoints return, and success rates are looked at, then only.
	Interval time.Duration
	// BaseEjectionTime is multiplied by how often the endpoint was ejected lately, up to MaxEjectionTime; up to
	// MaxEjectionTimeJitter is added by chance.
	BaseEjectionTime, MaxEjectionTime, MaxEjectionTimeJitter time.Duration
	// MaxEjectionPercent of the endpoints are ejected at a time at most; AlwaysEjectOne allows one whatever that says.
	MaxEjectionPercent uint32
	AlwaysEjectOne     bool
	// SplitLocalOrigin counts failures of connections apart from responses (split_external_local_origin_errors).
	SplitLocalOrigin bool
	// Consecutive5xx, ConsecutiveGateway and ConsecutiveLocalOrigin eject after that many in a row.
	Consecutive5xx, ConsecutiveGateway, ConsecutiveLocalOrigin ConsecutiveRule
	SuccessRate                                                SuccessRateRule
	FailurePercentage                                          FailurePercentageRule
	// UnejectOnCheck lets a passed health check end an ejection (successful_active_health_check_uneject_host).
	UnejectOnCheck bool
}

// ConsecutiveRule ejects after Count failures in a row, 0 for never, in Enforcing percent of the cases.
type ConsecutiveRule struct{ Count, Enforcing uint32 }

// SuccessRateRule ejects endpoints whose share of successes is so many standard deviations below the mean.
type SuccessRateRule struct {
	// MinimumHosts have to have had RequestVolume requests in one interval.
	MinimumHosts, RequestVolume uint32
	// StdevFactor is in thousandths.
	StdevFactor uint32
	// Enforcing is for responses, EnforcingLocalOrigin for connections.
	Enforcing, EnforcingLocalOrigin uint32
}

// FailurePercentageRule ejects endpoints of which Threshold percent of the requests failed.
type FailurePercentageRule struct {
	MinimumHosts, RequestVolume     uint32
	Threshold                       uint32
	Enforcing, EnforcingLocalOrigin uint32
}

// HealthCheck is envoy.config.core.v3.HealthCheck with its defaults filled in: how endpoints are asked whether they are well.
// HTTP or TCP is set.
type HealthCheck struct {
	// Timeout of one attempt, connecting included.
	Timeout time.Duration
	// UnhealthyThreshold failures in a row make an endpoint unhealthy, HealthyThreshold passes healthy. The first result of all
	// counts at once when it is a pass, and an HTTP answer that is wrong and not retriable does always.
	UnhealthyThreshold, HealthyThreshold uint32
	// Intervals between the end of an attempt and the next one.
	Intervals CheckIntervals
	// InitialJitter delays the first attempt by chance, IntervalJitter and IntervalJitterPercent the others.
	InitialJitter, IntervalJitter time.Duration
	IntervalJitterPercent         uint32
	// ReuseConnection keeps the connection between attempts.
	ReuseConnection bool
	// LogFailures and LogSuccesses log each attempt, not only changes.
	LogFailures, LogSuccesses bool
	HTTP                      *HTTPCheck
	TCP                       *TCPCheck
}

// CheckIntervals are how long to wait after an attempt, by its result and by what it has changed.
type CheckIntervals struct {
	Healthy, Unhealthy time.Duration
	// HealthyEdge and UnhealthyEdge are for results that have not reached their threshold.
	HealthyEdge, UnhealthyEdge time.Duration
	// NoTraffic and NoTrafficHealthy are for clusters that have had no connection yet.
	NoTraffic, NoTrafficHealthy time.Duration
}

// HTTPCheck is envoy.config.core.v3.HealthCheck.HttpHealthCheck.
type HTTPCheck struct {
	// Host is the Host field; empty takes the cluster's name.
	Host string
	// Path is the request target, query included; Method is in upper case.
	Path, Method string
	// Changes to the request's headers; their values are literal.
	Changes rewrite.HeaderChanges
	// Expected and Retriable statuses, sorted as configured.
	Expected, Retriable []StatusRange
}

// StatusRange is half open: First is in it, Behind is not.
type StatusRange struct{ First, Behind int }

// TCPCheck is envoy.config.core.v3.HealthCheck.TcpHealthCheck. Without Receive a connection is enough.
type TCPCheck struct {
	Send []byte
	// Receive are blocks that have to come in this order, whatever is between them.
	Receive [][]byte
}

// EndpointCheck is envoy.config.endpoint.v3.Endpoint.HealthCheckConfig: what is different for one endpoint.
type EndpointCheck struct {
	// Address is asked in place of the endpoint's; zero parts, address or port, are the endpoint's own.
	Address netip.AddrPort
	// Hostname is the Host field; empty takes the cluster's.
	Hostname string
	// Disabled endpoints are never asked, and healthy.
	Disabled bool
}

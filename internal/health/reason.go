// SPDX-License-Identifier: Apache-2.0

package health

// Reason is why a Detector takes an endpoint for an outlier (envoy.data.cluster.v3.OutlierEjectionType).
type Reason uint8

// The order is that of Envoy's statistics.
const (
	Consecutive5xx Reason = iota
	ConsecutiveGateway
	ConsecutiveLocalOrigin
	SuccessRate
	LocalOriginSuccessRate
	FailurePercentage
	LocalOriginFailurePercentage
	ReasonCount
)

var reasonNames = [ReasonCount]string{
	"consecutive_5xx", "consecutive_gateway_failure", "consecutive_local_origin_failure",
	"success_rate", "local_origin_success_rate", "failure_percentage", "local_origin_failure_percentage",
}

// String returns the name in Envoy's statistics, behind ejections_enforced_ and ejections_detected_.
func (r Reason) String() string { return reasonNames[r] }

// Origin says who makes a result of a request.
type Origin uint8

const (
	// External results are responses of the endpoint; without SplitLocalOrigin also all that takes their place.
	External Origin = iota
	// Local results are of the connection to it.
	Local
	originCount
)

// rateReasons are the reasons by statistics of one origin.
var rateReasons = [originCount]struct{ rate, percentage Reason }{
	External: {SuccessRate, FailurePercentage},
	Local:    {LocalOriginSuccessRate, LocalOriginFailurePercentage},
}

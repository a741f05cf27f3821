// SPDX-License-Identifier: Apache-2.0

package rewrite

// Format is a text with operators (Envoy's substitution format strings).
type Format struct {
	// Source is the text as it was written.
	Source string
	// Parts give the value, one behind the other.
	Parts []FormatPart
}

// FormatPart is a literal or one operator.
type FormatPart struct {
	Kind FormatKind
	// Text is the literal, the header of FormatRequest and FormatResponse, or the Go layout
	// of FormatTime. Other is asked where there is no such header. Names are lower case.
	Text, Other string
	// Max bounds the value's length in bytes; 0 is no bound.
	Max int
}

// FormatKind is an operator. Those whose value is known with the configuration are
// literals here.
type FormatKind uint8

const (
	// FormatLiteral is text.
	FormatLiteral FormatKind = iota
	// FormatRequest is %REQ(X?Y):Z%.
	FormatRequest
	// FormatResponse is %RESP(X?Y):Z%.
	FormatResponse
	// FormatRouteName is %ROUTE_NAME%.
	FormatRouteName
	// FormatProtocol is %PROTOCOL%.
	FormatProtocol
	// FormatResponseCode is %RESPONSE_CODE%: that of an endpoint's response, else 0.
	FormatResponseCode
	// FormatUpstreamCluster is %UPSTREAM_CLUSTER%: the cluster's name for observers (Cluster.ObservedAs).
	FormatUpstreamCluster
	// FormatUpstreamClusterRaw is %UPSTREAM_CLUSTER_RAW%: the cluster's name.
	FormatUpstreamClusterRaw
	// FormatUpstreamHost is %UPSTREAM_HOST%, known once an endpoint has been chosen.
	FormatUpstreamHost
	// FormatRemoteAddress is %DOWNSTREAM_REMOTE_ADDRESS%: the last of X-Forwarded-For if it is an address.
	FormatRemoteAddress
	// FormatRemoteIP is %DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%.
	FormatRemoteIP
	// FormatRemotePort is %DOWNSTREAM_REMOTE_PORT%.
	FormatRemotePort
	// FormatDirectAddress is %DOWNSTREAM_DIRECT_REMOTE_ADDRESS%: that of the connection.
	FormatDirectAddress
	// FormatDirectIP is %DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%.
	FormatDirectIP
	// FormatDirectPort is %DOWNSTREAM_DIRECT_REMOTE_PORT%.
	FormatDirectPort
	// FormatTime is a part of %START_TIME%, in UTC.
	FormatTime
	// FormatSeconds likewise: %s, those since 1970.
	FormatSeconds
	// FormatFraction likewise: %9f, the nanoseconds of the second, of which Max gives less.
	FormatFraction
)

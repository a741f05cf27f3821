// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"time"

	"github.com/xlb-project/xlb/internal/model/matcher"
)

// RetryOn is a set of conditions under which a request is sent again (RetryPolicy.retry_on). Those that speak of HTTP/2 and
// HTTP/3 have no place here: they cannot occur.
type RetryOn uint16

const (
	// RetryOn5xx is 5xx: a response of that class, or none at all.
	RetryOn5xx RetryOn = 1 << iota
	// RetryOnGatewayError is gateway-error: 502, 503 or 504, or no response.
	RetryOnGatewayError
	// RetryOnReset is reset: no response.
	RetryOnReset
	// RetryOnResetBeforeRequest is reset-before-request: the connection has ended before anything was sent.
	RetryOnResetBeforeRequest
	// RetryOnConnectFailure is connect-failure: no connection was made.
	RetryOnConnectFailure
	// RetryOnRetriable4xx is retriable-4xx: 409.
	RetryOnRetriable4xx
	// RetryOnStatusCodes is retriable-status-codes: those in Retry.StatusCodes.
	RetryOnStatusCodes
	// RetryOnHeaders is retriable-headers: a response that Retry.Headers match.
	RetryOnHeaders
	// RetryOnRateLimited is envoy-ratelimited: a response with x-envoy-ratelimited, which nothing else retries.
	RetryOnRateLimited

	// retryAnyReset are the conditions that the loss of a request already sent can meet.
	retryAnyReset = RetryOn5xx | RetryOnGatewayError | RetryOnReset
)

// Defaults of a retry policy.
const (
	// DefaultRetries is that of RetryPolicy.num_retries.
	DefaultRetries = 1
	// DefaultRetryBase is that of RetryPolicy.RetryBackOff.base_interval; the longest interval is ten times the base.
	DefaultRetryBase = 25 * time.Millisecond
	// DefaultRetryResetMax is that of RetryPolicy.RateLimitedRetryBackOff.max_interval.
	DefaultRetryResetMax = 300 * time.Second
)

// Retry is envoy.config.route.v3.RetryPolicy.
type Retry struct {
	On RetryOn
	// Retries besides the first attempt.
	Retries uint32
	// PerTry bounds the time from the end of the request, or from the connection for the attempt if that is later, to the head
	// of a response, and PerTryIdle the time without progress; zero is no bound.
	PerTry, PerTryIdle time.Duration
	// StatusCodes of RetryOnStatusCodes.
	StatusCodes []int
	// Headers of RetryOnHeaders: one that matches is enough.
	Headers []matcher.HeaderMatch
	// RequestHeaders leave other requests alone, unless there are none.
	RequestHeaders []matcher.HeaderMatch
	// AvoidPrevious sends a retry to an endpoint that has not been tried, if there is one (previous_hosts).
	AvoidPrevious bool
	// OmitCanaries sends a retry to an endpoint that is no canary, and OmitMetadata to one that has none of these, likewise
	// (omit_canary_hosts, omit_host_metadata).
	OmitCanaries bool
	OmitMetadata []Metadata
	// AvoidPriorities leaves the priorities out that have been tried, each time behind so many attempts (previous_priorities,
	// update_frequency); 0 does not.
	AvoidPriorities uint32
	// Base and Max of the exponential back-off.
	Base, Max time.Duration
	// Resets name headers of responses that say how long to wait instead, up to ResetMax.
	Resets   []RetryReset
	ResetMax time.Duration
}

// OmitsAny reports whether some endpoints are not for retries, tried or not.
func (r *Retry) OmitsAny() bool { return r.OmitCanaries || len(r.OmitMetadata) > 0 }

// canary is the metadata of endpoints that retries may leave out.
const canary Metadata = `{"canary":true}`

// Omits reports whether an endpoint with this metadata is left out.
func (r *Retry) Omits(m Metadata) bool {
	if r.OmitCanaries && m.has(canary, false) {
		return true
	}
	return slices.ContainsFunc(r.OmitMetadata, func(asked Metadata) bool { return m.has(asked, true) })
}

// RetryReset is RetryPolicy.ResetHeader.
type RetryReset struct {
	// Name is lower case.
	Name string
	// UnixTime: the value is a point in time, otherwise a number of seconds.
	UnixTime bool
}

// Lost is how a request was lost for which no response has come.
type Lost uint8

const (
	// LostConnect: no connection was made.
	LostConnect Lost = iota
	// LostUnsent: the connection has ended before anything was sent.
	LostUnsent
	// LostSent: later, or no answer has come in time.
	LostSent
)

// RetriesLost reports whether a lost request is one that the policy sends again.
func (r *Retry) RetriesLost(l Lost) bool {
	switch {
	case r.On&retryAnyReset != 0:
		return true
	case l == LostConnect:
		return r.On&(RetryOnConnectFailure|RetryOnResetBeforeRequest) != 0
	}
	return l == LostUnsent && r.On&RetryOnResetBeforeRequest != 0
}

// RetriesResponse reports whether the head of a response is one behind which the policy sends the request again.
func (r *Retry) RetriesResponse(status int, fields func(name string) []string) bool {
	switch {
	case len(fields("x-envoy-ratelimited")) > 0:
		return r.On&RetryOnRateLimited != 0
	case r.On&RetryOn5xx != 0 && status/100 == 5,
		r.On&RetryOnGatewayError != 0 && 502 <= status && status <= 504,
		r.On&RetryOnRetriable4xx != 0 && status == 409,
		r.On&RetryOnStatusCodes != 0 && slices.Contains(r.StatusCodes, status):
		return true
	}
	return r.On&RetryOnHeaders != 0 && anyMatches(r.Headers, matcher.OfResponse(fields))
}

// Concerns reports whether the policy is for a request.
func (r *Retry) Concerns(req *matcher.Request) bool {
	return r.On != 0 && (len(r.RequestHeaders) == 0 || anyMatches(r.RequestHeaders, req))
}

func anyMatches(headers []matcher.HeaderMatch, req *matcher.Request) bool {
	return slices.ContainsFunc(headers, func(h matcher.HeaderMatch) bool { return h.Matches(req) })
}

// needsDaemon reports whether the policy asks more of the kernel than to look at the status of a response and to keep a copy of the request: it
// has one deadline, and knows no headers of responses.
func (r *Retry) needsDaemon() bool {
	return r.PerTry > 0 || r.PerTryIdle > 0 || r.Retries > 0 && r.On&RetryOnHeaders != 0 && len(r.Headers) > 0
}

// NeedsCopy reports whether the policy can want a request again that has been sent. What is left is about what comes before the first byte, and
// the kernel takes only connections that are there already: the requests for which it finds none are handed over.
func (r *Retry) NeedsCopy() bool {
	answers := r.On&(RetryOnRetriable4xx|RetryOnRateLimited) != 0 || r.On&RetryOnStatusCodes != 0 && len(r.StatusCodes) > 0
	return r.Retries > 0 && (answers || r.On&retryAnyReset != 0)
}

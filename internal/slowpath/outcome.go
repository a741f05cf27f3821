// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"context"
	"errors"
	"slices"

	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/slowpath/watchdog"
	"github.com/xlb-project/xlb/internal/workload"
)

// Outcome is how the use of an endpoint ended.
type Outcome struct {
	// Status of the endpoint's response; 0: none arrived.
	Status int
	// Workload is whose request had that response; it is not set without one.
	Workload workload.ID
	// Withheld: the client has not got that response, but that of another attempt.
	Withheld bool
	// Err is nil when the response was relayed whole.
	Err error
	// ConnectFailed: no connection was made, so nothing was sent.
	ConnectFailed bool
	// TCP: a connection without HTTP was made.
	TCP bool
	// BadBody: the client's side of the request broke, and what followed is not the endpoint's doing.
	BadBody bool
}

// Fault is what an endpoint, or the way to it from the host, has done wrong.
type Fault uint8

const (
	// NoFault: the endpoint has answered, or was not given the time to.
	NoFault Fault = iota
	// FaultConnect: it could not be connected to.
	FaultConnect
	// FaultReset: it ended the connection, or did not speak HTTP.
	FaultReset
	// FaultTimeout: the time of the route, or of one attempt, was up.
	FaultTimeout
)

// Causes in Outcome.Err: the request was interrupted, by no fault of the
// connection to the endpoint.
var (
	ErrRouteTimeout = watchdog.ErrRouteTimeout
	ErrStreamIdle   = watchdog.ErrStreamIdle
	ErrClientGone   = watchdog.ErrClientGone
	// ErrRequestTimeout is about the request alone, ErrMaxDuration about request and response, ErrMaxAttempt about one attempt.
	ErrRequestTimeout = watchdog.ErrRequestTimeout
	ErrMaxDuration    = watchdog.ErrMaxDuration
	ErrMaxAttempt     = watchdog.ErrMaxAttempt
)

// interruptions end a request for reasons that say nothing about the endpoint. A stream that stands still is among them, as in Envoy.
var interruptions = []error{ErrStreamIdle, ErrRequestTimeout, ErrMaxDuration, ErrMaxAttempt, ErrClientGone, ErrClosed, context.Canceled}

// Fault says what the endpoint is to be blamed for.
func (o Outcome) Fault() Fault {
	_, byClient := errors.AsType[*h1.ClientError](o.Err)
	switch {
	case o.Err == nil, byClient, o.BadBody, errors.Is(o.Err, ErrWorkloadLeft):
		return NoFault
	case o.ConnectFailed && o.isOfHost():
		return FaultConnect
	case o.ConnectFailed:
		return NoFault
	case errors.Is(o.Err, ErrRouteTimeout), errors.Is(o.Err, watchdog.ErrAttemptTimeout):
		return FaultTimeout
	case slices.ContainsFunc(interruptions, func(err error) bool { return errors.Is(o.Err, err) }):
		return NoFault
	}
	return FaultReset
}

// isOfHost reports whether a failed connect was one of the host's. A rule for another workload, or what its own namespace has at the address, says nothing
// of the endpoint.
func (o Outcome) isOfHost() bool {
	dial, ok := errors.AsType[*conns.DialError](o.Err)
	return !ok || dial.From == workload.Host
}

// Fault says the same of a response that was relayed.
func (r RelayResult) Fault() Fault {
	switch r.Flag {
	case FlagUpstreamTermination, FlagUpstreamProtocolError:
		return FaultReset
	case FlagUpstreamTimeout:
		return FaultTimeout
	}
	return NoFault
}

// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"net"
	"net/http"

	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/slowpath/reply"
)

// LocalReply is an answer of the proxy itself, in Envoy's words.
type LocalReply uint8

const (
	noReply LocalReply = iota
	// ReplyBadRequest (400): the request is malformed.
	ReplyBadRequest
	// ReplyHeadTooLarge (431): the head exceeds Limits.
	ReplyHeadTooLarge
	// ReplyNotImplemented (501): a transfer coding other than chunked.
	ReplyNotImplemented
	// ReplyHeaderTimeout (408): the head did not arrive in time.
	ReplyHeaderTimeout
	// ReplyRequestTimeout (408): the request did not arrive in time.
	ReplyRequestTimeout
	// ReplyRequestTooLong (408): the time for request and response is over, and the request has not arrived.
	ReplyRequestTooLong
	// ReplyResponseTooLong (504): the same when the request has.
	ReplyResponseTooLong
	// ReplyAttemptRequestTooLong (408): the cluster's time for an attempt is over, and the request has not arrived.
	ReplyAttemptRequestTooLong
	// ReplyAttemptResponseTooLong (504): the same when the request has.
	ReplyAttemptResponseTooLong
	// ReplyNoRoute (404, empty): nothing matches.
	ReplyNoRoute
	// ReplyTooOld (426, empty): the request is one of HTTP/0.9.
	ReplyTooOld
	// ReplyUpgradeRefused (403, empty): the route does not allow the upgrade, or CONNECT.
	ReplyUpgradeRefused
	// ReplyNoCluster (503, empty): the route's cluster does not exist.
	ReplyNoCluster
	// ReplyNoHealthyUpstream (503): the cluster has no usable endpoint.
	ReplyNoHealthyUpstream
	// ReplyConnectFailure (503): every endpoint tried refused the connection.
	ReplyConnectFailure
	// ReplyConnectTimeout (503): connect_timeout expired on the last endpoint tried.
	ReplyConnectTimeout
	// ReplyUpstreamTermination (503): the endpoint closed before its headers.
	ReplyUpstreamTermination
	// ReplyUpstreamProtocolError (502): the endpoint's answer is not HTTP.
	ReplyUpstreamProtocolError
	// ReplyUpstreamTimeout (504): the route's timeout expired.
	ReplyUpstreamTimeout
	// ReplyOverflow (503): a circuit breaker of the cluster is open.
	ReplyOverflow
	// ReplyOverloaded (503): too many requests of the client's group wait, or its workload has as many in progress as it may.
	ReplyOverloaded
	// ReplyRequestStalled (408): the request's body stalled.
	ReplyRequestStalled
	// ReplyResponseStalled (504): the response stalled.
	ReplyResponseStalled
)

const (
	resetBeforeHeaders = "upstream connect error or disconnect/reset before headers. " + resetReason
	resetReason        = "reset reason: "
)

var replies = [...]struct {
	status int
	flag   Flag
	body   string
}{
	noReply:                     {},
	ReplyBadRequest:             {400, FlagDownstreamProtocolError, "Bad Request"},
	ReplyHeadTooLarge:           {431, FlagDownstreamProtocolError, "Request Header Fields Too Large"},
	ReplyNotImplemented:         {501, FlagDownstreamProtocolError, "Not Implemented"},
	ReplyHeaderTimeout:          {408, FlagStreamIdle, "request header timeout"},
	ReplyRequestTimeout:         {408, FlagNone, "request timeout"},
	ReplyRequestTooLong:         {408, FlagNone, "downstream duration timeout"},
	ReplyResponseTooLong:        {504, FlagNone, "downstream duration timeout"},
	ReplyAttemptRequestTooLong:  {408, FlagUpstreamMaxDuration, "upstream max stream duration reached"},
	ReplyAttemptResponseTooLong: {504, FlagUpstreamMaxDuration, "upstream max stream duration reached"},
	ReplyNoRoute:                {404, FlagNoRoute, ""},
	ReplyTooOld:                 {426, FlagNone, ""},
	ReplyUpgradeRefused:         {403, FlagNone, ""},
	ReplyNoCluster:              {503, FlagNoCluster, ""},
	ReplyNoHealthyUpstream:      {503, FlagNoHealthyUpstream, "no healthy upstream"},
	ReplyConnectFailure:         {503, FlagUpstreamConnectFailure, resetBeforeHeaders + "remote connection failure"},
	ReplyConnectTimeout:         {503, FlagUpstreamConnectFailure, resetBeforeHeaders + "connection timeout"},
	ReplyUpstreamTermination:    {503, FlagUpstreamTermination, resetBeforeHeaders + "connection termination"},
	ReplyUpstreamProtocolError:  {502, FlagUpstreamProtocolError, resetBeforeHeaders + "protocol error"},
	ReplyUpstreamTimeout:        {504, FlagUpstreamTimeout, "upstream request timeout"},
	ReplyOverflow:               {503, FlagUpstreamOverflow, resetBeforeHeaders + "overflow"},
	ReplyOverloaded:             {503, FlagOverloadManager, "envoy overloaded"},
	ReplyRequestStalled:         {408, FlagStreamIdle, "stream timeout"},
	ReplyResponseStalled:        {504, FlagStreamIdle, "stream timeout"},
}

// Status is the reply's status code.
func (r LocalReply) Status() int { return replies[r].status }

// Flag is the reply's Envoy response flag.
func (r LocalReply) Flag() Flag { return replies[r].flag }

// answer is the reply in full.
func (r LocalReply) answer() reply.Answer {
	return reply.Answer{Status: replies[r].status, Body: replies[r].body}
}

// ReplyTo is what a local reply depends on.
type ReplyTo struct {
	// Head: the request was a HEAD, the answer to which has no body.
	Head bool
	// Close announces the end of the connection. The caller closes it.
	Close bool
}

// Reply writes a local reply as Envoy words it and counts it. n is the number of bytes written.
func (p *Proxy) Reply(conn net.Conn, kind LocalReply, to ReplyTo) (n uint64, err error) {
	w := h1.NewWriter(conn, p.config.Crashes, conns.Abort)
	defer w.Release()
	p.counters.count(kind.Status(), kind.Flag())
	view := h1.ClientView{KeepAlive: !to.Close}
	if to.Head {
		view.Method = http.MethodHead
	}
	err = kind.answer().Write(w, view)
	n = w.Sent()
	p.counters.sent.Add(n)
	return n, err
}

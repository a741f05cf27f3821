// SPDX-License-Identifier: Apache-2.0

package maps

// handoverMeanings are those of docs/verdicts.md.
var handoverMeanings = map[Verdict]string{
	HandoverPartialHead:       "the head did not arrive in one send",
	HandoverHeadTooLong:       "longer than 8 KiB",
	HandoverMalformed:         "not plainly well formed, or ambiguous; the slow path answers 400 where it is",
	HandoverNotHTTP11:         "another version",
	HandoverMethod:            "a method whose framing is special or unknown; also what is not HTTP at all",
	HandoverTargetForm:        "absolute or asterisk form",
	HandoverHost:              "none, several, one that routes cannot name, or one whose port or last dot the configuration has cut off",
	HandoverTransferCoding:    "a request with another Transfer-Encoding than chunked, or with hundreds of tiny chunks in one send",
	HandoverTrailers:          "a chunked request with trailers, which by default do not pass: the slow path leaves them out. Trailers of a later send are `body_spilled`",
	HandoverConnectionOption:  "a Connection header other than keep-alive and upgrade, a TE header that is not empty, another hop-by-hop header, or a Trailer that names several fields or a forbidden one",
	HandoverUpgrade:           "an upgrade to anything but websocket, one that the route does not allow, or half of one",
	HandoverExpect:            "an expectation other than 100-continue",
	HandoverBodyTooLong:       "first send longer than 256 KiB: chunked, or to another host whose connection has no room for it",
	HandoverPipelined:         "sent before the response to the one before was complete, or two in one send",
	HandoverUnread:            "sent before the client has called receive for the response to the one before",
	HandoverRepeatedField:     "a header that routes ask about occurs twice",
	HandoverTooManyFields:     "more than 8 headers that routes ask about",
	HandoverTooManyParameters: "more than 100 query parameters, or more than 8 that routes ask about, where routes ask about some",
	HandoverListenerGone:      "the listener was removed or has got another address, or the daemon drains; for ten minutes the answer is by the routes that there were, and closes the connection",
	HandoverConnectionLimit:   "the connection has carried as many requests, or lasted as long, as its listener allows: the answer closes it",
	HandoverTableSlow:         "the route table needs the slow path; the log says why",
	HandoverRouteSlow:         "the first route that the request could take asks more than the kernel can tell (the log names the routes), or its path is longer than an expression is followed",
	HandoverRetryCopy:         "the route has a retry policy, and the request is longer than 1 KiB or did not come whole in one send: it could not be kept for another attempt",
	HandoverRewrite:           "the route changes the path, and the request did not come whole in one send, or there was no memory for a longer path",
	HandoverNormalize:         "the configuration may change or refuse the request before it routes (normalize_path, merge_slashes and their kin, headers_with_underscores_action)",
	HandoverNoVHost:           "no virtual host serves this host: 404",
	HandoverNoRoute:           "no route matches: 404",
	HandoverNoCluster:         "the route's cluster does not exist (any more)",
	HandoverOverflow:          "the client's pod, or the host, has as many requests in flight to the cluster as its circuit breakers allow, or others of it wait: the request waits as well, or is answered 503",
	HandoverClusterSlow:       "the cluster is balanced by hash with a bound on loads, or with a table that the kernel has no room for",
	HandoverNoEndpoint:        "no endpoint in service in a few tries, or a cluster of type ORIGINAL_DST that follows its clients; the slow path looks at all",
	HandoverEndpointTLS:       "connections to the chosen endpoint are secured by TLS, or it is the address of a listener; the slow path uses the same endpoint",
	HandoverPoolEmpty:         "the chosen endpoint had no idle i-sock; the slow path uses the same endpoint, and the pool grows",
	HandoverNoRoom:            "the endpoint's socket, or the machine, is short of memory for TCP; the slow path uses the same endpoint, and waits",
	HandoverEndpointLocked:    "a process holds the lock of the endpoint's socket for longer than a call takes, as while it sends from memory that is swapped out; the slow path uses the same endpoint, and waits for nobody's lock",
	HandoverLeaseBroken:       "the i-sock was lost while the request was being sent: 503",
	HandoverBodyMalformed:     "a chunked body went wrong after its head had been sent on: 400, or a reset when the response had begun",
	HandoverBodySpilled:       "a chunked body reached 256 KiB, its trailers, or what the daemon alone reads of chunk extensions, or a tunnel's endpoint reads slowly: the rest goes through the daemon to the same endpoint",
	HandoverGuarded:           "the machine, the endpoint or the connection is off the fast path because invariants were broken; /ready says which",
	HandoverNoState:           "the connection's state could not be kept: slow path for good",
}

// HandoverMeaning says in one line what a reason for a hand-over means; it is empty for
// other verdicts.
func HandoverMeaning(v Verdict) string { return handoverMeanings[v] }

// SPDX-License-Identifier: Apache-2.0

package maps

// verdictNames are the labels of verdicts in metrics and statistics, without their class.
var verdictNames = [VerdictCount]string{
	VerdictOk:                    "ok",
	VerdictConnectIntercepted:    "connect_intercepted",
	VerdictConnectOther:          "connect_other",
	VerdictConnectStaleDaemon:    "connect_stale_daemon",
	VerdictConnectNoAnchor:       "connect_no_anchor",
	VerdictConnectLeftAlone:      "connect_left_alone",
	VerdictConnectOverQuota:      "connect_over_quota",
	VerdictConnectNoMemory:       "connect_no_memory",
	VerdictConnectPlain:          "connect_plain",
	VerdictPSockJoined:           "psock_joined",
	VerdictPSockNotJoined:        "psock_not_joined",
	VerdictSSockJoined:           "ssock_joined",
	VerdictSSockNotJoined:        "ssock_not_joined",
	VerdictRequestLeased:         "request_leased",
	VerdictRequestBody:           "request_body",
	VerdictRequestOnSlowPath:     "request_on_slow_path",
	VerdictRequestReturned:       "request_returned",
	HandoverPartialHead:          "partial_head",
	HandoverHeadTooLong:          "head_too_long",
	HandoverMalformed:            "malformed",
	HandoverNotHTTP11:            "not_http11",
	HandoverMethod:               "method",
	HandoverTargetForm:           "target_form",
	HandoverHost:                 "host",
	HandoverTransferCoding:       "transfer_coding",
	HandoverTrailers:             "trailers",
	HandoverConnectionOption:     "connection_option",
	HandoverUpgrade:              "upgrade",
	HandoverExpect:               "expect",
	HandoverBodyTooLong:          "body_too_long",
	HandoverPipelined:            "pipelined",
	HandoverUnread:               "unread",
	HandoverRepeatedField:        "repeated_field",
	HandoverTooManyFields:        "too_many_fields",
	HandoverTooManyParameters:    "too_many_parameters",
	HandoverListenerGone:         "listener_gone",
	HandoverConnectionLimit:      "connection_limit",
	HandoverTableSlow:            "table_slow",
	HandoverRouteSlow:            "route_slow",
	HandoverNormalize:            "normalize",
	HandoverRewrite:              "rewrite",
	HandoverRetryCopy:            "retry_copy",
	HandoverNoVHost:              "no_vhost",
	HandoverNoRoute:              "no_route",
	HandoverNoCluster:            "no_cluster",
	HandoverOverflow:             "overflow",
	HandoverClusterSlow:          "cluster_slow",
	HandoverNoEndpoint:           "no_endpoint",
	HandoverEndpointTLS:          "endpoint_tls",
	HandoverPoolEmpty:            "pool_empty",
	HandoverNoRoom:               "no_room",
	HandoverEndpointLocked:       "endpoint_locked",
	HandoverLeaseBroken:          "lease_broken",
	HandoverBodyMalformed:        "body_malformed",
	HandoverBodySpilled:          "body_spilled",
	HandoverGuarded:              "guarded",
	HandoverNoState:              "no_state",
	VerdictResponseMoved:         "response_moved",
	VerdictResponseEnded:         "response_ended",
	VerdictResponseUnasked:       "response_unasked",
	VerdictResponseFIN:           "response_fin",
	VerdictResponseNoClient:      "response_no_client",
	VerdictResponseMalformed:     "response_malformed",
	VerdictResponseUnknownSocket: "response_unknown_socket",
	VerdictSpillFull:             "spill_full",
	VerdictSpillLocked:           "spill_locked",
	VerdictSpillFraming:          "spill_framing",
	VerdictSpillConnectionOption: "spill_connection_option",
	VerdictSpillTooLong:          "spill_too_long",
	VerdictSpillTrailers:         "spill_trailers",
	VerdictSpillRetry:            "spill_retry",
	VerdictSpilled:               "spilled",
	VerdictSegmentTrimmed:        "segment_trimmed",
	VerdictClientLeft:            "client_left",
}

// VerdictName is the label of a verdict: "pool_empty" for HandoverPoolEmpty.
func VerdictName(v Verdict) string {
	if int(v) >= len(verdictNames) || verdictNames[v] == "" {
		return "unknown"
	}
	return verdictNames[v]
}

// IsHandover reports whether the verdict declines a request to the slow path.
func IsHandover(v Verdict) bool {
	return v >= HandoverFirst && v <= HandoverLast
}

// SPDX-License-Identifier: Apache-2.0

package rewrite

// EnvoyHeaders are the headers that a proxy adds to requests and responses unasked, and takes out of requests, as Envoy's connection manager
// and router do. The kernel serves no request of a table with them: it adds nothing.
type EnvoyHeaders struct {
	// UseRemoteAddress takes the client for the one at the other end of the connection, appends its address to
	// X-Forwarded-For, and trusts none of its headers (use_remote_address).
	UseRemoteAddress bool
	// TrustedHops is how many proxies before this one are trusted to have appended to X-Forwarded-For (xff_num_trusted_hops).
	TrustedHops uint32
	// SkipForwardedFor appends nothing to X-Forwarded-For (skip_xff_append).
	SkipForwardedFor bool
	// GenerateRequestID gives requests an X-Request-ID that have none, and those of clients that are not trusted
	// another one, unless PreserveRequestID (generate_request_id, preserve_external_request_id).
	GenerateRequestID, PreserveRequestID bool
	// RequestIDInResponse repeats it in responses (always_set_request_id_in_response).
	RequestIDInResponse bool
	// Server is how the field of that name is handled, ServerName its value (server_header_transformation, server_name).
	Server     ServerHeader
	ServerName string
	// Via is appended to the field of that name, in both directions; empty is not (via).
	Via string
	// SuppressEnvoyHeaders leaves out what the router adds: X-Envoy-Expected-Rq-Timeout-Ms, X-Envoy-Original-Path,
	// X-Envoy-Original-Host, X-Envoy-Upstream-Service-Time (Router.suppress_envoy_headers).
	SuppressEnvoyHeaders bool
}

// ServerHeader is HttpConnectionManager.ServerHeaderTransformation.
type ServerHeader uint8

const (
	// ServerOverwrite is OVERWRITE.
	ServerOverwrite ServerHeader = iota
	// ServerAppendIfAbsent is APPEND_IF_ABSENT.
	ServerAppendIfAbsent
	// ServerPassThrough is PASS_THROUGH.
	ServerPassThrough
)

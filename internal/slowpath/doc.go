// SPDX-License-Identifier: Apache-2.0

// Package slowpath is an HTTP/1.1 reverse proxy in user space. It serves the
// requests that the kernel hands over, by the same routes, and is right alone:
// with the fast path off it serves everything. Clients speak HTTP/1.1 in clear
// text, and HTTP/1.0 where a listener accepts it; endpoints may have TLS.
//
// It works on anchors, the daemon's ends of intercepted connections. [Proxy.Serve]
// answers requests until the connection is quiet (everything read has been
// consumed as complete requests, everything is answered and flushed, nothing is
// buffered) and then returns at once, so that the kernel may take over again.
// [Proxy.Relay] finishes one request that the kernel had already sent.
//
// Unless a table says so (rewrite.EnvoyHeaders), no header is added but what routes ask for, and only hop-by-hop fields (RFC 9110 section 7.6.1) are
// removed. What a client sends is validated strictly per RFC 9112 before any byte of it reaches an endpoint, and an endpoint's answer before any byte of
// that reaches a client. Local replies have Envoy's status codes, texts and response flags.
//
// Connections to endpoints are kept for further requests. Without a retry policy a request is sent once, unless it is certain that no server has seen
// any of it. What an endpoint says behind an answer, or before it is asked, closes its connection.
//
// A connection in a sockmap must not be read with splice(2), which does not see
// redirected bytes; the package therefore never lets io.Copy see an anchor.
package slowpath

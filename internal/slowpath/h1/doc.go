// SPDX-License-Identifier: Apache-2.0

// Package h1 reads and writes the messages of HTTP/1 (RFC 9112) for package slowpath: the bodies of requests, responses of endpoints, and what is sent
// to a client or an endpoint. It knows neither routes nor clusters: package slowpath decides how a message is handled.
//
// Messages are validated strictly before any byte of them is passed on. Fields that concern one connection only (RFC 9110 section 7.6.1) are left out
// of what is written.
package h1

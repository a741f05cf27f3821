// SPDX-License-Identifier: Apache-2.0

// Package conns connects package slowpath to endpoints, and keeps connections for further requests. What an endpoint says behind an answer, or before its first
// request, closes its connection. One that has not been sent a whole request must not look whole: it is reset.
package conns

// SPDX-License-Identifier: Apache-2.0

// Package grammar draws HTTP/1.1 messages of which two readers could make different things, keeps a fixed corpus of such requests, and has a
// reader of its own that goes by the letter of RFC 9112.
//
// XLB has two readers of messages, that of bpf/lib and that of internal/slowpath, and endpoints have theirs. Where two of them disagree about where
// a message ends, or whom it is for, one client's bytes become another one's request.
package grammar

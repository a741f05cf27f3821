// SPDX-License-Identifier: Apache-2.0

// Package traffic makes the exchanges of the hostile machine, and judges them.
//
// An exchange has an identity ([ID]): the client's process, its connection and the request's number on
// it. Every body is the identity's own stream of bytes ([stream]): blocks that name their owner in
// readable form, each of them a whole request (in requests) or a whole response (in responses), so
// that whoever takes a body for a message executes something that names its origin. What the server
// is to do is an [Order] in the request's head; both sides derive from it every byte of either
// message, and compare.
//
// A [Violation] names both identities: the one whose exchange is wrong, and the one that the wrong
// bytes belong to.
package traffic

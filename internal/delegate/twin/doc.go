// SPDX-License-Identifier: Apache-2.0

// Package twin makes, of an Envoy bootstrap, the one that a delegate is started with: the same clusters, listeners, secrets and extensions, where listeners and the
// admin API are at Unix sockets in the delegate's own directory, and files are copies. It works on the document's tree: of extensions it has to know nothing, and
// what Envoy refuses Envoy says.
//
// What belongs to a listener's address is left out with it: socket options, further addresses, the balance among ports. Filter chains that match addresses see
// those of a Unix socket.
package twin

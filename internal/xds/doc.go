// SPDX-License-Identifier: Apache-2.0

// Package xds is a client of management servers that speak Envoy's xDS: it asks for clusters, assignments, listeners and routes over one
// aggregated stream (ADS), in either form of the protocol, and hands out what is warm of them.
//
// What is asked for. All clusters and all listeners; assignments and route configurations by name, as clusters and listeners refer to them. What
// nothing refers to is not handed out, and nothing is kept that was not asked for: it is sent again when it is asked for, whatever the order was.
// What is given up is kept for 15 s, since a server may not notice in time, and then not send it again.
//
// What is taken. A response is refused as a whole, and changes nothing, if it cannot be read: a body of another type, a resource without a
// name, a name that comes twice, bytes that end too soon. Otherwise each resource is judged by itself: the good ones are taken, a refused one
// keeps what it was before, and the response is refused (NACK) with the name and the reason of each. Envoy does the same for clusters and
// listeners; for the other kinds it stops at the first bad one. What is missing from a response of the state of the world is removed
// if it is a cluster or a listener, and stays otherwise. When an incremental server removes an assignment or a route configuration that
// something refers to, it stays too, as in Envoy.
//
// What is warm. A cluster or a listener is handed out when all it refers to is settled: it has been sent, or the server has said that it does not
// exist, or FetchTimeout has passed. Until then the one before serves, with what that refers to. What is known already settles at once;
// Envoy waits for an assignment to be sent anew. A resource that was refused and has nothing before it settles nothing, lest a listener serve without
// its routes; Envoy goes on without it. The first state is held back until all of it is settled, at most for FetchTimeout, or 15 s.
//
// What an ACK means. That a resource is good and was taken; not that it is warm, nor that Update has put it in force. Envoy answers clusters
// when they are warm. The stream never waits for Update. While Update runs, newer states are merged into one.
//
// Connections. Versions are those of the server that gave them: a stream to it begins with them, so that it need not send again what is known, and
// the state stays in force meanwhile. Another server is told names without versions. A server that answers is kept while its stream lasts; then
// the first is tried again. Pauses between rounds are random below 500 ms, doubling to 30 s, until a server has answered. TCP
// finds a dead server in 60 s, whether something waits for it (TCP_USER_TIMEOUT) or not (keep-alive); HTTP/2's PING is off, as in Envoy, unless Server.KeepAlive asks for it. A response may have 64 MiB. A refusal
// of what was refused just before is sent after a pause, since some servers answer it with the same at once.
//
// Time to live. A resource that has one ends when it passes without the resource or a heartbeat; so does one that is referred to, which is then
// absent. In Envoy assignments and route configurations stay. A response of heartbeats removes nothing; of the state of the world, Envoy
// takes one for a response without clusters.
package xds

// SPDX-License-Identifier: Apache-2.0

// Package hostile is a machine that looks for a byte in a wrong place. It runs XLB between clients and servers that do whatever
// a kernel lets them do, one scene after another: servers that answer early, late, never, by HTTP/1.0 and without a length, that close at
// each point, and close blindly, whatever comes at that moment, or as the next request is about to come; clients that send in every way
// there is, or leave; under limits of memory, processor, ports and descriptors; on one host, on two, with the fast path and without. Everybody
// knows each byte that is to come ([traffic]). At the end of a scene nothing may be left.
//
// Beside clients that meet by chance there are actors that bring about what chance seldom does: they hold the lock of a socket while a message
// is between its program and that socket, cut messages by a memory limit, fill a buffer to its last byte, and have the
// kernel keep many small messages. Strikes hit processes by chance: they hold the locks of sockets, stop processes, attach to them as a
// debugger does, and freeze their cgroup. A stock pair, Python's file server and a client of Python's, plays beside some scenes.
//
// Where no condition of the scene breaks connections, each exchange with an honest server has to end in an answer: a server that closes is the
// balancer's affair.
//
// A run follows from a seed, a scene from the run's seed and its number: what a violation says is enough to play its scene again
// (HOSTILE_SEED, HOSTILE_SCENE). What meets whom within a scene depends on timing, too.
//
//	make test-hostile HOSTILE_MINUTES=20 HOSTILE_SEED=7
//
// What is not here: jumps of the clock. CLOCK_MONOTONIC does not jump, a time namespace moves it for a process from its start alone, and to
// set CLOCK_REALTIME is to set it for the whole machine.
package hostile

// SPDX-License-Identifier: Apache-2.0

// Package shares divides the time in which the daemon works for clients among their tenants.
// What the daemon does for a client runs outside of that client's own limit of processor time: without
// a rule the client with most requests gets most.
//
// A [Scheduler] lets a number of [Ticket]s run at a time. A goroutine yields its ticket while it waits, as
// for bytes of a peer, and queues it again afterwards. Of the tickets that wait, the scheduler runs next one
// of the tenant that has had the least time so far, by the clock. A tenant is a [Path] in a
// tree, and each fork of the tree divides evenly among its branches, as the kernel divides processors
// among cgroups of equal weight: a tenant that makes itself more branches gets no more for that.
//
// A ticket stops after a [Quantum] while others wait, even if its goroutine goes on: it may be blocked. So
// a client that does not read does not keep others from being served.
//
// The package imports nothing of ours.
package shares

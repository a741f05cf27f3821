// SPDX-License-Identifier: Apache-2.0

// Package shares divides the time in which the daemon works for others among those for whom it works.
// What the daemon does for a client runs outside of that client's own limit of processor time: without
// a rule who asks most gets most.
//
// A [Desk] lets so many work at a time. Whoever waits for somebody else, as for bytes of a peer, gives
// his turn up, and takes his place again afterwards. Of those who wait the next turn is for the tenant
// that has had the least time so far; time is what turns take, by the clock. A tenant is a [Path] in a
// tree, and each fork of the tree divides evenly among its branches, as the kernel divides processors
// among cgroups of equal weight: a tenant that makes itself more branches gets no more for that.
//
// A turn ends after a [Quantum] while others wait, even if its holder goes on: it may be blocked. So
// nobody who does not read keeps others from working.
//
// The package imports nothing of ours.
package shares

// SPDX-License-Identifier: Apache-2.0

package model

// rules are what the programs and the daemon hold to. The model without one of them must be found
// wrong.
type rules struct {
	// A lease ends only when the sends that moved its bytes have returned.
	Settled bool
	// A program that runs again compares what it is shown with what it had claimed.
	Cuts bool
	// What a send returns is compared with what was claimed of it.
	Shorts bool
	// While one task sends, what another sends is not moved.
	Senders bool
	// A connection on which two tasks have sent at once stays with the daemon.
	Alone bool
	// A message of which the framing was judged, a head or chunks, and that was not wholly moved,
	// fails its lease.
	Framed bool
	// A connection that is the daemon's does not get open again what was not moved.
	Declined bool
	// A program that passes a message behind a redirect says where to.
	Named bool
	// What is passed is redirected to the socket itself: while that waits, other messages are shown
	// to the program.
	Shown bool
	// An i-sock with an urgent byte begins no lease.
	Urgent bool
	// A program ends a part of the lease that it means, and of no other, as the daemon does.
	Means bool
	// A slot is used again only when no program is at work on it.
	Grace bool
	// Nor while a goroutine of the daemon is.
	Held bool
	// The next request waits for the end of the lease before it.
	Next bool
	// The server's send is waited for as well.
	Replies bool
	// Of a lease that broke the request is open until its send has returned.
	Open bool
	// What one of a server's threads sent for a lease that has ended does not make another thread
	// wait.
	Forgets bool
	// A thread that settles its send goes by a copy, and only if no other one has taken the send over since.
	Taken bool
	// It lets go of the send only if no other one has taken it over meanwhile.
	Leaves bool
	// An i-sock on which the daemon has sent the rest of a request to a server on this host serves
	// nobody else.
	Spent bool
	// A connection of which the daemon has sent on a request's rest goes back to the programs when the lease of that has ended.
	Answered bool
	// A client that has an answer in place of whose endpoint the daemon has ended the lease goes on only if its request was whole.
	Proved bool
	// Nor does it if the answer is framed to its end and not known to have been moved to there.
	Moved bool
	// Nobody is told of a lease that was taken and not filled: the slot has the cookie of the one before.
	Filled bool
}

// The programs that account before the kernel moves anything.
var before = rules{Named: true, Shown: true, Means: true, Grace: true, Held: true, Next: true, Urgent: true, Answered: true, Proved: true, Moved: true, Filled: true}

// The programs that account when sends have returned.
var after = rules{
	Settled: true, Cuts: true, Shorts: true, Senders: true, Alone: true, Framed: true, Declined: true, Named: true, Shown: true,
	Urgent: true, Means: true, Grace: true, Held: true, Next: true, Replies: true, Open: true, Forgets: true, Taken: true, Leaves: true, Spent: true,
	Answered: true, Proved: true, Moved: true, Filled: true,
}

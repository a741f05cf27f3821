// SPDX-License-Identifier: Apache-2.0

package model

import "fmt"

const (
	clientCount = 2
	threadCount = 2
	slotCount   = 2
	queueSize   = 8
)

// A unit stands for bytes that are never split: a part of a head or of a body. It says whose it is.
type unit uint8

const (
	// The unit belongs to a response.
	unitAnswer unit = 1 << 7
	// It is not what a program or the daemon framed in its place: the application sent other bytes
	// than those it had shown.
	unitOther unit = 1 << 6

	placeBits   = 3
	requestBits = 2
	// The daemon answers in an endpoint's place with one unit.
	placeLocal = 1<<placeBits - 1
)

func requestUnit(client, request, place uint8) unit {
	return unit(client<<(placeBits+requestBits) | request<<placeBits | place)
}

func answerUnit(client, request, place uint8) unit {
	return unitAnswer | requestUnit(client, request, place)
}

func (u unit) client() uint8  { return uint8(u) >> (placeBits + requestBits) & 1 }
func (u unit) request() uint8 { return uint8(u) >> placeBits & (1<<requestBits - 1) }
func (u unit) place() uint8   { return uint8(u) & (1<<placeBits - 1) }

func (u unit) String() string {
	kind := "request"
	if u&unitAnswer != 0 {
		kind = "response"
	}
	other := ""
	if u&unitOther != 0 {
		other = ", which no program has framed"
	}
	if u&unitAnswer != 0 && u.place() == placeLocal {
		return fmt.Sprintf("the daemon's own reply to request %d of client %d", u.request(), u.client())
	}
	return fmt.Sprintf("unit %d of %s %d of client %d%s", u.place(), kind, u.request(), u.client(), other)
}

type queue struct {
	n  uint8
	at [queueSize]unit
}

func (q *queue) put(u unit) {
	q.at[q.n] = u
	q.n++
}

func (q *queue) take() unit {
	u := q.at[0]
	copy(q.at[:], q.at[1:q.n])
	q.n--
	q.at[q.n] = 0
	return u
}

func (q *queue) clear() { *q = queue{} }

// States of a slot, as in bpf/lib/abi.h.
const (
	slotFree uint8 = iota
	slotReady
	slotLeased
	slotBroken
)

// Parts of an exchange that are not complete.
const (
	pendingRequest uint8 = 1 << iota
	pendingResponse
	pendingSend
	pendingReply
)

// How far the framing of a response has come.
const (
	phaseDone uint8 = iota
	phaseHead
	phaseBody
)

// Whether the daemon tells the client that its lease broke.
const (
	tellNothing uint8 = iota
	tellClient
	// It has the whole answer, and the daemon has yet to decide whether it may go on.
	tellsEnd
)

// How the daemon ends a client's connection.
const (
	stillOpen uint8 = iota
	wasReset
	// Behind what was sent to it.
	wasClosed
)

// A slot is struct slot of bpf/lib/abi.h. State and holder are one word there.
type slot struct {
	state, holder uint8
	lease         uint8
	generation    uint8
	stacked       uint8
	// What of a lease is not complete, and of which: one word as well.
	pending, parts uint8
	retire, urgent uint8
	// The client that holds the lease, counted from 1.
	cookie uint8
	// Of the request: units moved; whether the daemon writes the rest; of that, units that a
	// program framed already and others.
	sent, spilled, skip, rest uint8
	// Of the response: framing, units to come, units moved, and whether the daemon reads the rest.
	phase, remaining, moved, spill uint8
	broken, untold                 uint8
	// Of which request the lease is, for what the model looks at alone.
	request uint8
}

// settles is set in the sender of a send that has returned, and of which a task goes by a copy.
const settles = 1 << 7

// What a send has shown to its program, and what that claimed of it: struct send of bpf/lib/send.h.
type send struct {
	sender, offered, claimed uint8
	// Messages that the kernel has made of the send so far.
	messages uint8
}

// What the tracepoint's program has copied of a send, and the lease that it was for.
type settled struct {
	claimed, messages, lease uint8
}

// A psock is what programs know of a client's connection.
type psock struct {
	send
	slot, lease, unproven uint8
	body                  uint8
	// In the hands of the daemon until that gives it back; for good; and the lease of which the
	// daemon must know the end first.
	slow, forever     uint8
	hasLease          uint8
	heldSlot, heldNum uint8
	// Connected elsewhere.
	elsewhere uint8
	// The kernel keeps the verdict of a message while it waits for room to pass it on, and gives it
	// to others meanwhile.
	passing uint8
}

// Where a message goes.
const (
	toNowhere uint8 = iota
	// Passed: TCP, to the anchor or the i-sock.
	toTCP
	// Redirected to the socket's own sending side, which is TCP as well.
	toSelf
	// Redirected to a server's queue, an i-sock's sending side, or a client's queue.
	toPeer
)

// Where a task stands.
const (
	taskIdle uint8 = iota
	// The kernel runs the program for the message.
	taskRun
	// The program has taken a slot, and not filled it.
	taskFill
	// The kernel does what the program said.
	taskMove
	// The kernel waits for room to pass the message on, without the socket's lock.
	taskWait
	// The send returns.
	taskReturn
	// A program, or the daemon, ends a part of an exchange, in these steps.
	taskClear
	taskRelease
	taskPush
	// The application has a count that is short, and sends the rest.
	taskAgain
	// The tracepoint's program has seen that the send is its task's, and has copied it.
	taskSettle
	// It has settled the send, and has yet to let go of it.
	taskLeave
)

// A target is what a message was redirected to, which outlives the lease.
type target struct {
	to, slot, generation, client uint8
	// The kernel repeats a redirect that the program did not ask for.
	stray uint8
}

// An ending is a part of an exchange that a program, or the daemon, takes for complete, and what
// its task does then.
type ending struct {
	part, slot, lease, then uint8
}

// A task sends: a thread of a client, or of a server.
type task struct {
	at uint8
	// What the application has yet to send, from where this send began, behind what the kernel
	// took, and to the message's end.
	from, to, taken, stop uint8
	// Where so many units go, and where those of the run before went, in the same message.
	units     uint8
	goal, was target
	// So far the program has framed what is sent.
	framed uint8
	// The application sends other bytes than those it had shown; the last one is urgent.
	other, urgent uint8
	ending        ending
}

// A server is the handler of one connection.
type server struct {
	task
	// A thread whose send has taken all, and not returned. The other one, of which this is the
	// number, goes on.
	returning task
	was       settled
	thread    uint8
	send
	slot, generation uint8
	// The lease for which it claimed.
	lease uint8
	// The request that it reads or answers, counted from 1; units read of it; units answered.
	request, read, answered uint8
}

// A conn is an i-sock and its other end.
type conn struct {
	live, closed, generation uint8
	// What the server has not read: redirected, which it reads first, and over TCP. What the i-sock
	// has not read.
	in, tcp, out queue
	// What the daemon wrote to a server on this host, and that has not arrived.
	wire queue
	// A urgent byte that is not acknowledged.
	urgent uint8
	server server
}

type client struct {
	psock psock
	tasks [threadCount]task
	// Units given to threads; the next response, and units of it that were read.
	next, answer, read uint8
	// The request of which it reads the response, counted from 1.
	reading    uint8
	gone, dead uint8
	// Redirected segments, of which a worker has not yet made anything readable.
	worker queue
	anchor queue
}

// What may still go wrong.
type faults struct {
	Cuts, Shorts, Waits, Timeouts, Leaves, Closes, Spills, Reopens, Urgents, Disconnects, Kills uint8
}

type state struct {
	left        faults
	slots       [slotCount]slot
	stack       [slotCount]uint8
	stacked     uint8
	outstanding uint8
	conns       [slotCount]conn
	// Servers of connections that were closed while they sent.
	late    [slotCount]server
	clients [clientCount]client
	// What a verdict program, and a goroutine of the daemon, end.
	verdict [slotCount]task
	daemon  [slotCount]task
	killed  uint8
	// What is wrong, and with which unit.
	bad  fault
	with unit
	who  uint8
}

// SPDX-License-Identifier: Apache-2.0

package model

import "slices"

// A plan is what a client does.
type plan struct {
	requests uint8
	// Units of its requests.
	head, body uint8
	chunked    bool
	threads    uint8
	// It does not wait for a response before it sends the next request.
	pipelines bool
	// It may send other bytes than those of which a send took only some.
	evil bool
	// Where sends may end, in units from the beginning of a request, besides with the request.
	cuts []uint8
}

// units is how many a request of the plan has.
func (p *plan) units() uint8 { return p.head + p.body }

// ends are the places where a send may end that begins here.
func (p *plan) ends(from uint8) []uint8 {
	first := from / p.units() * p.units()
	var ends []uint8
	for _, n := range slices.Concat(p.cuts, []uint8{p.units()}) {
		if at := first + n; at > from && at <= p.requests*p.units() {
			ends = append(ends, at)
		}
	}
	return ends
}

// A scenario is what there is, and what may go wrong, how often.
type scenario struct {
	name string
	// The servers are on another host.
	remote  bool
	slots   uint8
	clients [clientCount]plan
	// Units of each response; whether servers send them one by one; whether they answer before they
	// have read the body.
	answer        uint8
	pieces, early bool
	// Each server closes behind its response, whether it has read the request or not: by HTTP/1.0, or without a length.
	closing bool
	// Each server has two threads: one goes on before the send of the other has returned.
	crowd bool
	// No client gives reason for anything but its response.
	kind bool
	// Units of a send that are shown to the program at once, 0: all.
	shown uint8
	may   faults
	// Only bytes are looked at: what is left at the end is the client's own fault.
	open bool
}

var (
	// It sends one request without a body, and waits.
	getter = plan{requests: 1, head: 1, threads: 1}
	twice  = plan{requests: 2, head: 1, threads: 1}
	// It sends one request with a body, in any number of sends.
	poster = plan{requests: 1, head: 1, body: 2, threads: 1, cuts: []uint8{1, 2}}
	small  = plan{requests: 1, head: 1, body: 1, threads: 1, cuts: []uint8{1}}
	twoOf  = plan{requests: 2, head: 1, body: 1, threads: 1, cuts: []uint8{1}}
	// Its head is long enough to be cut.
	forger = plan{requests: 1, head: 2, body: 2, threads: 1, cuts: []uint8{2}, evil: true}
	// Its second request rides in a send of the first.
	piper = plan{requests: 2, head: 1, body: 1, threads: 1, pipelines: true, cuts: []uint8{1, 3, 4}}
)

func threaded(p plan) plan {
	p.threads = 2
	return p
}

// scenarios are checked with each run of the unit tests: a minute altogether at the most.
var scenarios = []scenario{
	{name: "short, pipelined", slots: 2, clients: [2]plan{{requests: 2, head: 1, body: 1, threads: 1, pipelines: true, cuts: []uint8{2}}}, answer: 2, may: faults{Shorts: 1, Spills: 1}},
	{name: "early", kind: true, slots: 1, clients: [2]plan{poster, getter}, answer: 2, pieces: true, early: true},
	{name: "early, other host", kind: true, remote: true, slots: 1, clients: [2]plan{poster, getter}, answer: 2, early: true},
	{name: "early, two i-socks", kind: true, slots: 2, clients: [2]plan{twoOf, twice}, answer: 1, early: true},
	{name: "cut request", kind: true, slots: 1, clients: [2]plan{poster, getter}, answer: 2, early: true, may: faults{Cuts: 1}},
	{name: "cut response", kind: true, slots: 1, clients: [2]plan{twice, getter}, answer: 3, may: faults{Cuts: 2}},
	{name: "short", slots: 1, clients: [2]plan{poster, getter}, answer: 2, early: true, may: faults{Shorts: 2}},
	{name: "short, other host", remote: true, slots: 1, clients: [2]plan{poster, getter}, answer: 2, early: true, may: faults{Shorts: 2}},
	{name: "forged rest", slots: 1, clients: [2]plan{forger, getter}, answer: 1, early: true, may: faults{Cuts: 1, Shorts: 1}},
	{name: "forged rest, other host", remote: true, slots: 1, clients: [2]plan{forger, getter}, answer: 1, early: true, may: faults{Shorts: 2}},
	{
		name: "forged chunks", slots: 1,
		clients: [2]plan{{requests: 1, head: 1, body: 3, chunked: true, threads: 1, cuts: []uint8{1}, evil: true}, getter},
		answer:  1, early: true, may: faults{Cuts: 1, Shorts: 1, Spills: 1},
	},
	{name: "threads", slots: 1, clients: [2]plan{threaded(poster), getter}, answer: 1, early: true},
	{name: "threads, short", slots: 1, clients: [2]plan{threaded(twoOf), getter}, answer: 1, early: true, may: faults{Shorts: 1}},
	{name: "threads, other host", remote: true, slots: 1, clients: [2]plan{threaded(twoOf), getter}, answer: 1, early: true, may: faults{Shorts: 1}},
	{name: "goroutines", slots: 1, clients: [2]plan{small, getter}, answer: 1, early: true, may: faults{Spills: 1, Closes: 1, Reopens: 1}},
	{
		name: "threads, long sends", slots: 1,
		clients: [2]plan{{requests: 4, head: 1, threads: 2, pipelines: true, cuts: []uint8{2}}},
		answer:  1, shown: 1, may: faults{Waits: 1, Shorts: 1},
	},
	{name: "pipelined", slots: 2, clients: [2]plan{piper, getter}, answer: 2, early: true, may: faults{Cuts: 1}},
	{name: "pipelined, other host", remote: true, slots: 2, clients: [2]plan{piper, getter}, answer: 2, early: true},
	{
		name: "pipelined, spills", slots: 2,
		clients: [2]plan{{requests: 2, head: 1, body: 1, threads: 1, pipelines: true, cuts: []uint8{1, 2}}},
		answer:  1, early: true, may: faults{Spills: 1},
	},
	{name: "ends", slots: 1, clients: [2]plan{small, getter}, answer: 2, early: true, may: faults{Timeouts: 1, Leaves: 1, Closes: 1, Reopens: 2}},
	{
		name: "ends, other host", remote: true, slots: 1, clients: [2]plan{small, getter}, answer: 2, early: true,
		may: faults{Timeouts: 1, Leaves: 1, Closes: 1, Reopens: 2},
	},
	{name: "answers that close", slots: 1, clients: [2]plan{twoOf, getter}, answer: 1, early: true, closing: true, may: faults{Spills: 1, Shorts: 1, Reopens: 1}},
	{
		name: "answers that close, other host", remote: true, slots: 1, clients: [2]plan{twoOf, getter}, answer: 1, early: true, closing: true,
		may: faults{Spills: 1, Shorts: 1, Reopens: 1},
	},
	{name: "killed", slots: 1, clients: [2]plan{poster, getter}, answer: 2, early: true, may: faults{Cuts: 1, Shorts: 1, Kills: 1}},
	{name: "spills", slots: 1, clients: [2]plan{poster, getter}, answer: 2, early: true, may: faults{Spills: 2, Timeouts: 1, Reopens: 1}},
	{
		name: "spills, other host", remote: true, slots: 1, clients: [2]plan{poster, getter}, answer: 2, early: true,
		may: faults{Spills: 2, Timeouts: 1, Reopens: 1},
	},
	{name: "two server threads", slots: 1, clients: [2]plan{twice, getter}, answer: 2, pieces: true, crowd: true, kind: true, may: faults{Spills: 1, Cuts: 1}},
	{name: "urgent", remote: true, slots: 1, clients: [2]plan{poster, getter}, answer: 1, early: true, may: faults{Urgents: 1, Reopens: 1}, open: true},
	{name: "connected elsewhere", slots: 1, clients: [2]plan{piper, getter}, answer: 1, early: true, may: faults{Disconnects: 1, Reopens: 1}},
}

// wider are checked by hand: minutes, and some gigabytes.
var wider = []scenario{
	{name: "two i-socks", slots: 2, clients: [2]plan{small, twice}, answer: 1, early: true, may: faults{Cuts: 1, Shorts: 1}},
	{name: "two i-socks, other host", remote: true, slots: 2, clients: [2]plan{small, twice}, answer: 1, early: true, may: faults{Shorts: 2}},
	{
		name: "all faults", slots: 1, clients: [2]plan{small, getter}, answer: 2, early: true,
		may: faults{Cuts: 1, Shorts: 1, Timeouts: 1, Leaves: 1, Closes: 1, Spills: 1, Reopens: 1},
	},
	{
		name: "all faults, other host", remote: true, slots: 1, clients: [2]plan{small, getter}, answer: 2, early: true,
		may: faults{Shorts: 1, Timeouts: 1, Leaves: 1, Closes: 1, Spills: 1, Reopens: 1},
	},
	{name: "threads, cut and short", slots: 1, clients: [2]plan{threaded(poster), getter}, answer: 1, early: true, may: faults{Cuts: 1, Shorts: 1}},
	{name: "threads, ends", slots: 1, clients: [2]plan{threaded(small), getter}, answer: 1, early: true, may: faults{Timeouts: 1, Closes: 1, Reopens: 1}},
	{
		name: "threads, longer sends", slots: 1,
		clients: [2]plan{{requests: 3, head: 1, threads: 2, pipelines: true, cuts: []uint8{1, 2, 3}}, getter},
		answer:  1, shown: 1, may: faults{Waits: 2, Shorts: 1},
	},
	{name: "pipelined, ends", slots: 2, clients: [2]plan{piper, getter}, answer: 1, early: true, may: faults{Cuts: 1, Timeouts: 1, Reopens: 1}},
	{
		name: "two server threads, ends", slots: 1, clients: [2]plan{twice, getter}, answer: 2, pieces: true, crowd: true,
		may: faults{Cuts: 1, Spills: 1, Timeouts: 1, Reopens: 1},
	},
}

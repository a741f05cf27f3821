// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// exchange is one case: who says what, and what XLB must make of it.
type exchange struct {
	name string
	// rfc is the section that says what is right: of RFC 9112, if it names no other.
	rfc   string
	steps []step
	rule  rule
	// fast tells that the kernel must serve it, on the same host and from another.
	fast bool
	// isHead tells that the requests are HEAD.
	isHead bool
	// upload is what all bodies of requests must be together at the endpoint, download what those of the final answers must be at the
	// client; download is "hello" for each unless it is set.
	upload, download string
	// target is what the endpoint must see; path unless it is set.
	target string
	// pending says why XLB does not follow the rule yet.
	pending string
	// hop is a field of which the sender says that it is for the next hop only.
	hop string
}

// none is a download of nothing.
const none = "none"

// observation is what came of a case.
type observation struct {
	answers  []message // at the client
	client   state     // of the client's connection
	requests []message // at the endpoint
	path     string
	// lingers tells that a connection to the endpoint that should have been closed was not.
	lingers bool
}

// reach is what an endpoint gets of a request.
type reach uint8

const (
	reachedWhole reach = iota
	reachedNothing
	reachedPart // nothing whole
	reachedOnce // as many whole requests as answers: none is tried again
	reachedAny
)

// rule says what must come of a case.
type rule struct {
	// statuses of all responses, informational ones too; nil: any, or none.
	statuses []int
	// states that the client's connection may be in.
	states  []state
	reached reach
	// cut tells that the client must be able to see that the last answer is not whole.
	cut bool
}

// served: these responses, whole, to requests that arrive whole; the connection stays.
func served(statuses ...int) rule { return rule{statuses: statuses, states: []state{kept}} }

// servedAtLeast: answered by the endpoint; whether the connection goes on is the balancer's choice.
func servedAtLeast(statuses ...int) rule {
	return rule{statuses: statuses, states: []state{kept, closed}}
}

// servedLast is served, and then the connection ends.
func servedLast(statuses ...int) rule { return rule{statuses: statuses, states: []state{closed}} }

// refused: this answer and the end; the endpoint gets nothing.
func refused(status int) rule {
	return rule{statuses: []int{status}, states: []state{closed}, reached: reachedNothing}
}

// declined is refused, but the connection stays.
func declined(status int) rule {
	return rule{statuses: []int{status}, states: []state{kept}, reached: reachedNothing}
}

// failed: the endpoint's fault is answered with these, last of all with this status.
func failed(statuses ...int) rule {
	return rule{statuses: statuses, states: []state{kept, closed}, reached: reachedAny}
}

// cutOff: nobody takes what the client has for a whole answer, and the connection ends.
func cutOff() rule { return rule{states: []state{closed}, reached: reachedAny, cut: true} }

// check returns what is not as the rule says.
func (c *exchange) check(o observation) []string {
	var wrong []string
	complain := func(format string, a ...any) { wrong = append(wrong, fmt.Sprintf(format, a...)) }
	var statuses []int
	for _, m := range o.answers {
		statuses = append(statuses, m.status)
	}
	if c.rule.statuses != nil && !slices.Equal(statuses, c.rule.statuses) {
		complain("statuses: got %v, want %v", statuses, c.rule.statuses)
	}
	if !slices.Contains(c.rule.states, o.client) {
		complain("connection: got %q, want one of %q", o.client, c.rule.states)
	}
	if o.lingers {
		complain("the connection to the endpoint is kept")
	}
	if count(o.answers, withTrailers)+count(o.requests, withTrailers) > 0 {
		complain("trailers pass, which nobody has enabled")
	}
	wholes := count(o.answers, func(m message) bool { return m.final() && m.whole })
	if c.rule.cut && wholes > 0 {
		complain("answer: it looks whole")
	}
	if !c.rule.cut && len(o.answers) > 0 && !o.answers[len(o.answers)-1].whole {
		complain("answer: it is cut short")
	}
	switch c.rule.reached {
	case reachedNothing:
		if len(o.requests) > 0 {
			complain("the endpoint got %s", o.requests)
		}
	case reachedPart:
		if count(o.requests, whole) > 0 {
			complain("the endpoint got %s", o.requests)
		}
	case reachedWhole:
		wrong = append(wrong, c.checkDelivery(o)...)
	case reachedOnce:
		if n, finals := count(o.requests, whole), count(o.answers, message.final); n != finals {
			complain("requests at the endpoint: got %s, want %d", o.requests, finals)
		}
	case reachedAny:
	}
	return wrong
}

func withTrailers(m message) bool { return m.trailers }

// checkDelivery compares what each side got with what the other sent.
func (c *exchange) checkDelivery(o observation) []string {
	var wrong []string
	finals := count(o.answers, message.final)
	if n := count(o.requests, func(m message) bool { return m.whole }); n != finals || len(o.requests) != n {
		wrong = append(wrong, fmt.Sprintf("requests at the endpoint: got %s, want %d whole", o.requests, finals))
	}
	if got := bodies(o.requests); got != c.upload {
		wrong = append(wrong, fmt.Sprintf("body at the endpoint: got %d bytes, want %d", len(got), len(c.upload)))
	}
	if got, want := bodies(o.answers), c.wantDownload(o.answers); got != want {
		wrong = append(wrong, fmt.Sprintf("body at the client: got %q, want %q", got, want))
	}
	for _, m := range o.requests {
		if want := c.wantTarget(); m.target != want {
			wrong = append(wrong, fmt.Sprintf("target at the endpoint: got %.50q, want %.50q", m.target, want))
		}
	}
	if c.hop != "" && c.hopPassed(o) {
		wrong = append(wrong, c.hop+" was passed on")
	}
	return wrong
}

func bodies(all []message) string {
	var b strings.Builder
	for _, m := range all {
		b.WriteString(m.body)
	}
	return b.String()
}

func (c *exchange) wantDownload(answers []message) string {
	switch {
	case c.download == none || c.isHead:
		return ""
	case c.download != "":
		return c.download
	}
	return strings.Repeat("hello", count(answers, message.mayHaveBody))
}

func (c *exchange) wantTarget() string {
	if c.target != "" {
		return c.target
	}
	return path
}

// hopPassed tells whether the next hop's field came through, in either direction.
func (c *exchange) hopPassed(o observation) bool {
	return slices.ContainsFunc(slices.Concat(o.requests, o.answers), func(m message) bool { return m.header.Get(c.hop) != "" })
}

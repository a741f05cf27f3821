// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
)

// Event is a broken invariant that a program has reported.
type Event struct {
	What maps.Guard
	// Endpoint of the lease; the zero value: not known.
	Endpoint netip.AddrPort
	// Client is the cookie of its socket; 0: not known.
	Client uint64
	// Tenant is whom the client belongs to; "": not known.
	Tenant string
}

// Decision is a change of what is on the fast path.
type Decision struct {
	Scope Scope
	// Client or Endpoint that the decision is about, where the scope is that.
	Client   uint64
	Endpoint netip.AddrPort
	// Back: it returns to the fast path. Otherwise it leaves.
	Back bool
	// Why it leaves, in words.
	Why string
	// For says how long; 0: for as long as the connection, or the daemon, lasts.
	For time.Duration
}

// Off is something that is off the fast path. Clients' connections are not listed.
type Off struct {
	Scope    Scope
	Endpoint netip.AddrPort
	Why      string
	Since    time.Time
	// Until it returns; zero: it does not.
	Until time.Time
}

// Policy decides. It is not safe for concurrent use.
type Policy struct {
	seen [maps.GuardCount][]seen
	// reported are events so far, missed those that were counted without an event, earlier the counts
	// of the last look.
	reported, missed, earlier [maps.GuardCount]uint64
	// behind: there are counts for which an event may still come.
	behind    bool
	endpoints map[netip.AddrPort]*suspension
	machine   *Off
}

// seen is an event and when it was reported.
type seen struct {
	Event
	at time.Time
}

// suspension is an endpoint's time off the fast path.
type suspension struct {
	Off
	// off: it is off now. Otherwise returned is when it came back.
	off      bool
	returned time.Time
	length   time.Duration
}

// New returns a Policy to which nothing has happened.
func New() *Policy { return &Policy{endpoints: map[netip.AddrPort]*suspension{}} }

// Event takes an event in. What is off already is not decided about again, but for clients: their
// connections may have ended, or be others' by now, and only the caller knows.
func (p *Policy) Event(now time.Time, e Event) []Decision {
	if e.What >= maps.GuardCount {
		return nil
	}
	p.reported[e.What]++
	p.note(now, e)
	return p.decide(now, e)
}

// Counts takes in how often each invariant was broken since the programs were loaded, by
// maps.Guard, and returns how many of the last look have had no event: programs tell of a few only.
// These may be anybody's, and are held against nobody, but they count.
func (p *Policy) Counts(now time.Time, counts []uint64) (missed [maps.GuardCount]uint64, decisions []Decision) {
	p.behind = false
	for i := range min(len(counts), len(p.earlier)) {
		if known := p.reported[i] + p.missed[i]; p.earlier[i] > known {
			missed[i] = p.earlier[i] - known
			p.missed[i] += missed[i]
		}
		what := maps.Guard(i)
		for range min(missed[i], maxSeen) {
			p.note(now, Event{What: what})
		}
		if missed[i] > 0 {
			decisions = append(decisions, p.decide(now, Event{What: what})...)
		}
		p.earlier[i] = counts[i]
		p.behind = p.behind || counts[i] > p.reported[i]+p.missed[i]
	}
	return missed, decisions
}

// Behind reports whether another look at the counts could find events missing.
func (p *Policy) Behind() bool { return p.behind }

func (p *Policy) note(now time.Time, e Event) {
	list := p.seen[e.What]
	old := 0
	for old < len(list) && (now.Sub(list[old].at) >= longestWindow || len(list)-old >= maxSeen) {
		old++
	}
	p.seen[e.What] = append(slices.Delete(list, 0, old), seen{e, now})
}

// decide looks at the rules that an event may have to do with.
func (p *Policy) decide(now time.Time, e Event) (decisions []Decision) {
	if p.machine != nil {
		return nil
	}
	for i := range rules {
		r := &rules[i]
		if !slices.Contains(r.whats, e.What) || !p.concerns(r, e) {
			continue
		}
		if c := p.count(now, r, e); c.reach(r) {
			decisions = append(decisions, p.leave(now, r, e, c.why(r)))
		}
	}
	return decisions
}

// concerns reports whether the rule could have that leave what the event is about.
func (p *Policy) concerns(r *rule, e Event) bool {
	switch r.scope {
	case Client:
		return e.Client != 0
	case Endpoint:
		known := p.endpoints[e.Endpoint]
		return e.Endpoint.IsValid() && (known == nil || !known.off)
	}
	return true
}

// tally is what a rule counts.
type tally struct {
	count     int
	tenants   map[string]int
	endpoints map[netip.AddrPort]bool
}

func (p *Policy) count(now time.Time, r *rule, e Event) tally {
	t := tally{tenants: map[string]int{}, endpoints: map[netip.AddrPort]bool{}}
	var returned time.Time
	if known := p.endpoints[e.Endpoint]; known != nil && r.scope == Endpoint {
		returned = known.returned
	}
	for _, what := range r.whats {
		for _, s := range p.seen[what] {
			of := r.scope == Machine || r.scope == Client && s.Client == e.Client || r.scope == Endpoint && s.Endpoint == e.Endpoint
			if !of || now.Sub(s.at) >= r.within || s.at.Before(returned) {
				continue
			}
			t.count++
			if s.Tenant != "" {
				t.tenants[s.Tenant]++
			}
			if s.Endpoint.IsValid() {
				t.endpoints[s.Endpoint] = true
			}
		}
	}
	return t
}

// often is how many tenants have seen so many.
func (t *tally) often(each int) (n int) {
	for _, seen := range t.tenants {
		if seen >= each {
			n++
		}
	}
	return n
}

func (t *tally) reach(r *rule) bool {
	return t.count >= r.count && t.often(r.each) >= r.tenants && len(t.endpoints) >= r.endpoints
}

func (t *tally) why(r *rule) string {
	names := make([]string, len(r.whats))
	for i, what := range r.whats {
		names[i] = maps.GuardName(what)
	}
	text := fmt.Sprintf("%d x %s", t.count, strings.Join(names, " or "))
	if r.endpoints > 0 {
		text += fmt.Sprintf(" with %d endpoints", len(t.endpoints))
	}
	if r.tenants > 0 {
		text += fmt.Sprintf(", seen by clients of %d cgroups", len(t.tenants))
	}
	return fmt.Sprintf("%s, within %s", text, r.within)
}

// leave takes something off the fast path.
func (p *Policy) leave(now time.Time, r *rule, e Event, why string) Decision {
	d := Decision{Scope: r.scope, Why: why}
	switch r.scope {
	case Client:
		d.Client = e.Client
	case Endpoint:
		d.Endpoint, d.For = e.Endpoint, p.suspend(now, e.Endpoint, why)
	case Machine:
		p.machine = &Off{Scope: Machine, Why: why, Since: now}
	}
	return d
}

// suspend takes an endpoint off the fast path, and returns for how long.
func (p *Policy) suspend(now time.Time, endpoint netip.AddrPort, why string) time.Duration {
	known := p.endpoints[endpoint]
	length := firstSuspension
	if known != nil && now.Sub(known.returned) < forgiveness {
		length = min(2*known.length, longestSuspension)
	}
	p.endpoints[endpoint] = &suspension{
		Off: Off{Scope: Endpoint, Endpoint: endpoint, Why: why, Since: now, Until: now.Add(length)}, off: true, length: length,
	}
	return length
}

// Due returns what comes back by now.
func (p *Policy) Due(now time.Time) (decisions []Decision) {
	for endpoint, r := range p.endpoints {
		switch {
		case r.off && !now.Before(r.Until):
			r.off, r.returned = false, now
			decisions = append(decisions, Decision{Scope: Endpoint, Endpoint: endpoint, Back: true, For: now.Sub(r.Since)})
		case !r.off && now.Sub(r.returned) >= forgiveness:
			delete(p.endpoints, endpoint)
		}
	}
	slices.SortFunc(decisions, func(a, b Decision) int { return a.Endpoint.Compare(b.Endpoint) })
	return decisions
}

// Next is when Due has something to do again; zero: not before something happens.
func (p *Policy) Next() (next time.Time) {
	for _, r := range p.endpoints {
		at := r.Until
		if !r.off {
			at = r.returned.Add(forgiveness)
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// Off lists the endpoints that are off the fast path, and the machine if that is: the latter first.
func (p *Policy) Off() (list []Off) {
	if p.machine != nil {
		list = append(list, *p.machine)
	}
	for _, r := range p.endpoints {
		if r.off {
			list = append(list, r.Off)
		}
	}
	slices.SortFunc(list, func(a, b Off) int {
		return cmp.Or(cmp.Compare(b.Scope, a.Scope), a.Endpoint.Compare(b.Endpoint))
	})
	return list
}

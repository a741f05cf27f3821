// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// Retries is what a retry policy has left for one request. As in Envoy nothing is sent again once the client has any part of a
// response, an interim one included.
type Retries struct {
	policy    *model.Retry
	admission *Admission
	// cluster finds the one of that name.
	cluster func(name string) *model.Cluster
	name    string
	// over: the request is not sent again, whatever happens.
	over bool
	left uint32
	// interval is what the next wait is drawn from.
	interval time.Duration
	tried    []netip.AddrPort
	// omitted are endpoints that no retry goes to while there are others; nil: nobody has looked.
	omitted map[netip.AddrPort]bool
	// isCounted: the cluster counts a retry of this request.
	isCounted bool
}

// Begin sets the policy of a request to the cluster of that name; nil: it is not sent again.
func (r *Retries) Begin(policy *model.Retry, asked *matcher.Request, admission *Admission, cluster func(name string) *model.Cluster, name string) {
	if policy == nil {
		policy = &model.Retry{}
	}
	*r = Retries{
		policy: policy, admission: admission, cluster: cluster, name: name,
		over: !policy.Concerns(asked), left: policy.Retries, interval: policy.Base,
	}
}

// Over reports that the request is not sent again, whatever happens.
func (r *Retries) Over() bool { return r.over }

// End has the request not be sent again.
func (r *Retries) End() { r.over = true }

// AvoidPriorities is behind how many attempts each the policy leaves priorities out; 0: it does not.
func (r *Retries) AvoidPriorities() uint32 { return r.policy.AvoidPriorities }

// Outcome is how an attempt has ended.
type Outcome struct {
	Endpoint netip.AddrPort
	// Answered with Status and Fields, or Lost.
	Answered bool
	Status   int
	Fields   []head.Field
	Lost     model.Lost
	// Final: the request can't be sent again, whatever the policy says.
	Final bool
}

// Next is what follows an attempt.
type Next uint8

const (
	// Stand: the outcome is the request's.
	Stand Next = iota
	// Again: the request is sent once more, after a time.
	Again
	// LimitReached: as Stand, since the last retry that the policy allows had been made.
	LimitReached
	// Overflowed: as Stand, since the cluster has as many retries under way as there may be.
	Overflowed
)

// Decide says what follows an attempt, and after what time where that is another one.
func (r *Retries) Decide(o *Outcome) (Next, time.Duration) {
	retried, tally := r.isCounted, r.admission.Tally
	r.Leave()
	if r.over || o.Final {
		return Stand, 0
	}
	if !r.wants(o) {
		if retried {
			tally.recovered.Add(1)
		}
		return Stand, 0
	}
	if r.left == 0 {
		tally.exhausted.Add(1)
		return LimitReached, 0
	}
	r.left--
	if r.isCounted = r.admission.enterRetry(); !r.isCounted {
		tally.denied.Add(1)
		return Overflowed, 0
	}
	tally.retries.Add(1)
	r.tried = append(r.tried, o.Endpoint)
	return Again, r.wait(o)
}

// Leave ends what the cluster counts: as in Envoy a retry counts until its outcome is known.
func (r *Retries) Leave() {
	if r.isCounted {
		r.admission.leaveRetry()
		r.isCounted = false
	}
}

func (r *Retries) wants(o *Outcome) bool {
	if o.Answered {
		return r.policy.RetriesResponse(o.Status, func(name string) []string { return head.Values(o.Fields, name) })
	}
	return r.policy.RetriesLost(o.Lost)
}

// HasTried reports whether the next attempt is a retry.
func (r *Retries) HasTried() bool { return len(r.tried) > 0 }

// Avoids reports an endpoint that a retry should not go to.
func (r *Retries) Avoids(a netip.AddrPort) bool {
	if len(r.tried) == 0 {
		return false
	}
	return r.policy.AvoidPrevious && slices.Contains(r.tried, a) || r.policy.OmitsAny() && r.omits(a)
}

func (r *Retries) omits(a netip.AddrPort) bool {
	if r.omitted == nil {
		r.omitted = r.omittedEndpoints()
	}
	return r.omitted[a]
}

// omittedEndpoints are those of the cluster that the policy leaves out by their metadata.
func (r *Retries) omittedEndpoints() map[netip.AddrPort]bool {
	omitted := map[netip.AddrPort]bool{}
	c := r.cluster(r.name)
	if c == nil {
		return omitted
	}
	for i := range c.Endpoints {
		if at := c.Endpoints[i].Address; r.policy.Omits(c.Endpoints[i].Metadata) {
			omitted[netip.AddrPortFrom(at.Addr().Unmap(), at.Port())] = true
		}
	}
	return omitted
}

// wait is how long the endpoint says, and half as much again at most, or a random part of an interval that doubles from retry to retry.
func (r *Retries) wait(o *Outcome) time.Duration {
	if d := r.asked(o.Fields); d > time.Millisecond {
		return d + rand.N(d/2+1)
	}
	d := rand.N(r.interval)
	r.interval = min(2*r.interval, r.policy.Max)
	return d
}

// asked is what the first header with a valid value asks for; 0 for none.
func (r *Retries) asked(fields []head.Field) time.Duration {
	for _, reset := range r.policy.Resets {
		values := head.Values(fields, reset.Name)
		if len(values) == 0 {
			continue
		}
		seconds, err := strconv.ParseUint(strings.Trim(values[0], " "), 10, 32)
		if err != nil {
			continue
		}
		d := time.Duration(seconds) * time.Second
		if reset.UnixTime {
			d = time.Until(time.Unix(int64(seconds), 0))
		}
		if 0 < d && d <= r.policy.ResetMax {
			return d
		}
	}
	return 0
}

// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/anypb"
)

// State is what is known of a resource (Envoy: admin.v3.ClientResourceStatus; the numbers are the same).
type State uint8

const (
	// Requested: asked for, not yet sent.
	Requested State = iota + 1
	// DoesNotExist: the server does not have it, or has not sent it in time.
	DoesNotExist
	// Acked: the newest that was sent was accepted.
	Acked
	// Nacked: the newest that was sent was refused; what was accepted before, if anything, stays in force.
	Nacked
)

// String is the state's name in Envoy.
func (s State) String() string {
	return [...]string{"UNKNOWN", "REQUESTED", "DOES_NOT_EXIST", "ACKED", "NACKED"}[min(s, Nacked)]
}

// Status is what a client knows and has done.
type Status struct {
	// Connected: there is a stream (Envoy: control_plane.connected_state). Server is who it leads to, or the one that was asked last; Since is
	// when it began or ended, and Error why it ended.
	Connected bool
	Server    string
	Since     time.Time
	Error     string

	// StreamFailures counts streams that ended or could not be opened; FetchTimeouts resources that were not sent in time (Envoy:
	// init_fetch_timeout); Updates calls of Update that were not cut off, UpdateErrors those that failed.
	StreamFailures, FetchTimeouts, Updates, UpdateErrors uint64

	// Kinds is indexed by Kind.
	Kinds [kinds]KindStatus
}

// KindStatus is what is known of one kind.
type KindStatus struct {
	// Version is of the last response that was accepted as a whole (Envoy: version_text).
	Version string
	// Attempts counts responses (Envoy: update_attempt), each of which was accepted or refused (update_success, update_rejected).
	Attempts, Successes, Rejected uint64
	// Error says why the last response was refused, at FailedAt with FailedVersion, if it was; LastUpdate is when one was last accepted.
	Error, FailedVersion string
	FailedAt, LastUpdate time.Time
	// NotKept counts refusals of resources that Resources does not have, since the stream began, or since the last response that named all: there were too
	// many of them.
	NotKept uint64
	// Resources are sorted by name.
	Resources []ResourceStatus
}

// ResourceStatus is what is known of one resource.
type ResourceStatus struct {
	Name string
	// Version and Body are of what was accepted last, at LastUpdate; Body is nil if nothing was.
	Version    string
	Body       *anypb.Any
	LastUpdate time.Time
	State      State
	// Warming: what was accepted waits for what it refers to; what was accepted before serves.
	Warming bool
	// FailedVersion and FailedBody are of what was refused, at FailedAt, for the reason Error, if State is Nacked; FailedBody is nil where it is too long to be kept.
	FailedVersion, Error string
	FailedBody           *anypb.Any
	FailedAt             time.Time
	// Fault is what Check has found wrong with it; nil where Error has another reason.
	Fault error
}

// Count is what has become of one resource each time it came.
type Count struct {
	// Successes and Rejected are Envoy's update_success and update_rejected of its subscription.
	Successes, Rejected uint64
	// Accepted is when it was last accepted, also where it was the same as before, and Version the one of then.
	Accepted time.Time
	Version  string
}

func (c *Count) add(good bool, version string, now time.Time) {
	if !good {
		c.Rejected++
		return
	}
	c.Successes++
	c.Accepted, c.Version = now, version
}

// Counts returns what has become of the resources of a kind, by name.
func (c *Client) Counts(kind Kind) map[string]Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]Count, len(c.state.entries[kind]))
	for name, e := range c.state.entries[kind] {
		if e.isKnown() {
			out[name] = e.count
		}
	}
	return out
}

type counters struct{ streamFailures, timeouts, updates, failures uint64 }

type kindCounters struct {
	attempts, successes, rejected uint64
	fault, failedVersion          string
	failedAt, accepted            time.Time
}

// link is the stream, or the last one.
type link struct {
	connected     bool
	server, fault string
	since         time.Time
}

// note counts a response.
func (c *Client) note(kind Kind, r *response, fault error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := &c.kinds[kind]
	k.attempts++
	if fault != nil {
		k.rejected++
		k.fault, k.failedVersion, k.failedAt = fault.Error(), r.version, time.Now()
		return
	}
	k.successes++
	k.fault, k.failedVersion, k.failedAt, k.accepted = "", "", time.Time{}, time.Now()
}

// Status returns what is known now.
func (c *Client) Status() Status { return c.sorted((*entry).isKnown) }

// Refused returns what is known now, and of the resources those that were refused.
func (c *Client) Refused() Status {
	return c.sorted(func(e *entry) bool { return e.isKnown() && e.refused != nil })
}

// isKnown reports whether there is something to say of it.
func (e *entry) isKnown() bool { return !e.unused }

func (c *Client) sorted(of func(*entry) bool) Status {
	s := c.status(of)
	for _, kind := range every {
		slices.SortFunc(s.Kinds[kind].Resources, func(a, b ResourceStatus) int { return cmp.Compare(a.Name, b.Name) })
	}
	return s
}

func (c *Client) status(of func(*entry) bool) Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Status{
		Connected: c.link.connected, Server: c.link.server, Since: c.link.since, Error: c.link.fault,
		StreamFailures: c.counted.streamFailures, FetchTimeouts: c.counted.timeouts, Updates: c.counted.updates, UpdateErrors: c.counted.failures,
	}
	for _, kind := range every {
		counted := c.kinds[kind]
		s.Kinds[kind] = KindStatus{
			Version: c.state.version[kind], Attempts: counted.attempts, Successes: counted.successes, Rejected: counted.rejected,
			Error: counted.fault, FailedVersion: counted.failedVersion, FailedAt: counted.failedAt, LastUpdate: counted.accepted,
			NotKept: c.state.notKept[kind], Resources: c.state.list(kind, of),
		}
	}
	return s
}

func (s *state) list(kind Kind, of func(*entry) bool) []ResourceStatus {
	var list []ResourceStatus
	for _, e := range s.entries[kind] {
		if of(e) {
			list = append(list, e.status())
		}
	}
	return list
}

func (e *entry) status() ResourceStatus {
	s := ResourceStatus{
		Name: e.name, Version: e.version, Body: e.accepted.body, LastUpdate: e.updated,
		Warming: e.kind.isRoot() && e.accepted.body != e.served.body,
	}
	switch {
	case e.refused != nil:
		s.State = Nacked
		s.FailedVersion, s.FailedBody, s.Error, s.FailedAt = e.refused.version, e.refused.body, e.refused.reason.String(), e.refused.at
		s.Fault = e.refused.reason.fault
	case e.absent || e.withdrawn:
		s.State = DoesNotExist
	case e.accepted.body != nil:
		s.State = Acked
	default:
		s.State = Requested
	}
	return s
}

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
	// init_fetch_timeout); Updates calls of Update, UpdateErrors those that failed.
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
	// Error says why the last response was refused, if it was; LastUpdate is when one was last accepted.
	Error      string
	LastUpdate time.Time
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
	// FailedVersion and FailedBody are of what was refused, at FailedAt, for the reason Error, if State is Nacked.
	FailedVersion, Error string
	FailedBody           *anypb.Any
	FailedAt             time.Time
}

type counters struct{ streamFailures, timeouts, updates, failures uint64 }

type kindCounters struct {
	attempts, successes, rejected uint64
	fault                         string
	accepted                      time.Time
}

// link is the stream, or the last one.
type link struct {
	connected     bool
	server, fault string
	since         time.Time
}

// note counts a response.
func (c *Client) note(kind Kind, _ *response, fault error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := &c.kinds[kind]
	k.attempts++
	if fault != nil {
		k.rejected++
		k.fault = fault.Error()
		return
	}
	k.successes++
	k.fault, k.accepted = "", time.Now()
}

// Status returns what is known now.
func (c *Client) Status() Status {
	s := c.status()
	for _, kind := range every {
		slices.SortFunc(s.Kinds[kind].Resources, func(a, b ResourceStatus) int { return cmp.Compare(a.Name, b.Name) })
	}
	return s
}

func (c *Client) status() Status {
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
			Error: counted.fault, LastUpdate: counted.accepted, Resources: c.state.list(kind),
		}
	}
	return s
}

func (s *state) list(kind Kind) []ResourceStatus {
	list := make([]ResourceStatus, 0, len(s.entries[kind]))
	for _, e := range s.entries[kind] {
		if !e.unused {
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
		s.FailedVersion, s.FailedBody, s.Error, s.FailedAt = e.refused.version, e.refused.body, e.refused.reason, e.refused.at
	case e.absent || e.withdrawn:
		s.State = DoesNotExist
	case e.accepted.body != nil:
		s.State = Acked
	default:
		s.State = Requested
	}
	return s
}

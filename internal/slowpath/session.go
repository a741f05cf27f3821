// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"cmp"
	"net/http"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
)

// stickiness keeps a client with the endpoint that has answered it before.
type stickiness struct {
	rule *model.Session
	// wanted is the address that the request has brought; empty: none.
	wanted string
	// missing is the status of the answer to a request whose endpoint does not exist.
	missing int
}

// beginSession reads where the request wants to go.
func (x *exchange) beginSession() {
	rule := x.filters().Session
	if rule == nil || !rule.Concerns(x.Head.Path) {
		return
	}
	asked := x.Asked()
	x.sticky = &stickiness{rule: rule, wanted: rule.Endpoint(&asked, time.Now())}
}

// follow claims the endpoint that the request wants in place of the kernel's choice. A failure says that it cannot be had, and no other one
// will do.
func (x *exchange) follow(claim *Claim, cluster *model.Cluster) (*Claim, LocalReply) {
	s := x.sticky
	if s == nil || s.wanted == "" || x.proxy.config.Named == nil || !cluster.Overrides() {
		return claim, noReply
	}
	e, health, ok := x.proxy.config.Named(x.cluster, s.wanted)
	switch {
	case ok && cluster.MayOverride(health):
		claim.unused()
		x.claim = &Claim{Cluster: x.cluster, Endpoint: e}
		return x.claim, noReply
	case ok:
		e.Done(Outcome{})
	default:
		s.missing = cmp.Or(s.rule.NotFound, http.StatusServiceUnavailable)
	}
	if s.rule.Strict {
		claim.unused()
		return nil, ReplyNoHealthyUpstream
	}
	return claim, noReply
}

// insists reports whether the request may go to no other endpoint.
func (s *stickiness) insists() bool { return s != nil && s.rule.Strict && s.wanted != "" }

// status is that of an answer in place of an endpoint's.
func (s *stickiness) status(reply LocalReply, status int) int {
	if s.insists() && reply == ReplyNoHealthyUpstream {
		return cmp.Or(s.missing, status)
	}
	return status
}

// keepSession tells the client which endpoint has answered, or has failed to, unless it has named that one.
func (x *exchange) keepSession(fields []field) []field {
	s := x.sticky
	if s == nil || !x.Address.IsValid() || x.Address.String() == s.wanted {
		return fields
	}
	name, value := s.rule.Field(x.Address.String(), time.Now())
	if s.rule.Header != "" {
		return headers.Set(fields, name, value)
	}
	return append(fields, field{Name: []byte(name), Value: []byte(value)})
}

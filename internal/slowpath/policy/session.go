// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"net/http"
	"time"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
)

// Session keeps a client with the endpoint that has answered it before.
type Session struct {
	rule *model.Session
	// Requested is the address that the request has brought; empty: none.
	Requested string
	// missing is the status of the answer to a request whose endpoint does not exist.
	missing int
}

// SessionOf reads where the request wants to go; nil: it has no session.
func SessionOf(r *headers.Request) *Session {
	rule := Filters(r).Session
	if rule == nil || !rule.Concerns(r.Head.Path) {
		return nil
	}
	asked := r.Asked()
	return &Session{rule: rule, Requested: rule.Endpoint(&asked, time.Now())}
}

// Insists reports whether the request may go to no other endpoint.
func (s *Session) Insists() bool { return s != nil && s.rule.Strict && s.Requested != "" }

// Missing notes that the endpoint does not exist.
func (s *Session) Missing() { s.missing = cmp.Or(s.rule.NotFound, http.StatusServiceUnavailable) }

// Status is that of an answer which says that no endpoint can be had.
func (s *Session) Status(status int) int {
	if s.Insists() {
		return cmp.Or(s.missing, status)
	}
	return status
}

// Keep tells the client which endpoint has answered, or has failed to, unless it has named that one.
func (s *Session) Keep(r *headers.Request, fields []head.Field) []head.Field {
	if s == nil || !r.Address.IsValid() || r.Address.String() == s.Requested {
		return fields
	}
	name, value := s.rule.Field(r.Address.String(), time.Now())
	if s.rule.Header != "" {
		return headers.Set(fields, name, value)
	}
	return append(fields, head.Field{Name: []byte(name), Value: []byte(value)})
}

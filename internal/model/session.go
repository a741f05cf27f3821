// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/base64"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xlb-project/xlb/internal/model/matcher"
)

// Session is envoy.extensions.filters.http.stateful_session.v3.StatefulSession: a client brings the address of the endpoint that
// answered it, in a cookie or a header, and comes to the same one.
type Session struct {
	// Header in lower case; empty: a cookie.
	Header string
	// Cookie is the name of the cookie, New how it is made.
	Cookie string
	New    NewCookie
	// Strict refuses a request whose endpoint cannot be had; otherwise the cluster's policy chooses another.
	Strict bool
	// NotFound is the status where Strict finds no such endpoint (status_on_strict_destination_not_found).
	NotFound int
}

// Concerns reports whether requests for a path, with its query or without, have a session: those to which the client would send the cookie.
func (s *Session) Concerns(path string) bool {
	at := s.New.Path
	if s.Header != "" || at == "" || at == "/" {
		return true
	}
	path, _, _ = strings.Cut(path, "?")
	path, _, _ = strings.Cut(path, "#")
	rest, ok := strings.CutPrefix(path, at)
	return ok && (strings.HasSuffix(at, "/") || rest == "" || rest[0] == '/')
}

// Endpoint is the address that a request brings; empty: none.
func (s *Session) Endpoint(r *matcher.Request, now time.Time) string {
	if s.Header != "" {
		if values := r.Header(s.Header); len(values) > 0 {
			return decoded(values[0])
		}
		return ""
	}
	value, _ := r.Cookie(s.Cookie)
	text := decoded(value)
	if address, expires, ok := parseSession(text); ok {
		if expires != 0 && expires < now.Unix() {
			return ""
		}
		return address
	}
	return text // as Envoy wrote it once
}

// decoded is empty for what is not base64.
func decoded(value string) string {
	b, err := base64.StdEncoding.Strict().DecodeString(value)
	if err != nil {
		return ""
	}
	return string(b)
}

// Field is the header of a response by which a client comes to an endpoint again.
func (s *Session) Field(address string, now time.Time) (name, value string) {
	if s.Header != "" {
		return s.Header, base64.StdEncoding.EncodeToString([]byte(address))
	}
	b := protowire.AppendTag(nil, sessionAddress, protowire.BytesType)
	b = protowire.AppendString(b, address)
	if s.New.TTL > 0 {
		b = protowire.AppendTag(b, sessionExpires, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(now.Add(s.New.TTL).Unix()))
	}
	return "set-cookie", s.New.setCookie(s.Cookie, base64.StdEncoding.EncodeToString(b))
}

// Fields of the message that the value of Envoy's cookie is: the address, and the time in Unix seconds when it is over, 0 for never.
const (
	sessionAddress = protowire.Number(1)
	sessionExpires = protowire.Number(2)
)

// parseSession reads such a message. ok is false for what is none.
func parseSession(text string) (address string, expires int64, ok bool) {
	for b := []byte(text); len(b) > 0; {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return "", 0, false
		}
		b = b[n:]
		switch {
		case number == sessionAddress && kind == protowire.BytesType:
			var raw []byte
			if raw, n = protowire.ConsumeBytes(b); n >= 0 && !utf8.Valid(raw) {
				return "", 0, false
			}
			address = string(raw)
		case number == sessionExpires && kind == protowire.VarintType:
			var v uint64
			v, n = protowire.ConsumeVarint(b)
			expires = int64(v)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return "", 0, false
		}
		b = b[n:]
	}
	return address, expires, true
}

// Overrides reports whether sessions count with the cluster at all: an empty list of states ignores them.
func (c *Cluster) Overrides() bool { return c.OverrideStatus == nil || len(c.OverrideStatus) > 0 }

// MayOverride reports whether a session's endpoint may have that health. Without a list these are UNKNOWN, HEALTHY and DEGRADED.
func (c *Cluster) MayOverride(h HealthStatus) bool {
	if c.OverrideStatus == nil {
		return h == HealthUnknown || h == Healthy || h == Degraded
	}
	return slices.Contains(c.OverrideStatus, h)
}

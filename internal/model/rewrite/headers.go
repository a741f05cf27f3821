// SPDX-License-Identifier: Apache-2.0

package rewrite

// HeaderLevel is what a part of the configuration changes: a route table, a virtual host,
// a route or a weighted cluster.
type HeaderLevel struct{ Request, Response HeaderChanges }

// IsZero reports a level that changes nothing.
func (l *HeaderLevel) IsZero() bool { return l.Request.IsZero() && l.Response.IsZero() }

// HeaderChanges are what one level of the configuration does to headers: it removes
// first, then evaluates all values, and only then sets them
// (request_headers_to_add, request_headers_to_remove and their kin).
type HeaderChanges struct {
	// Remove names headers, in lower case.
	Remove []string
	Set    []HeaderSetting
}

// IsZero reports changes that change nothing.
func (c *HeaderChanges) IsZero() bool { return len(c.Remove) == 0 && len(c.Set) == 0 }

// HeaderSetting is envoy.config.core.v3.HeaderValueOption.
type HeaderSetting struct {
	// Name is lower case.
	Name  string
	Value Format
	How   HeaderAction
	// KeepEmpty sets the header even if its value is empty.
	KeepEmpty bool
}

// HeaderAction says what becomes of a header that is there already, in Envoy's names.
type HeaderAction uint8

const (
	// AppendOrAdd adds another value.
	AppendOrAdd HeaderAction = iota
	// AddIfAbsent leaves a header that is there as it is.
	AddIfAbsent
	// OverwriteOrAdd replaces all values.
	OverwriteOrAdd
	// OverwriteIfExists likewise, and adds none.
	OverwriteIfExists
)

// Underscores is HttpProtocolOptions.headers_with_underscores_action.
type Underscores uint8

const (
	// PassUnderscores is ALLOW.
	PassUnderscores Underscores = iota
	// RefuseUnderscores is REJECT_REQUEST: the request is answered 400, and the connection closes.
	RefuseUnderscores
	// DropUnderscores is DROP_HEADER: the request goes on without the field.
	DropUnderscores
)

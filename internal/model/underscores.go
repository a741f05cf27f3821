// SPDX-License-Identifier: Apache-2.0

package model

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

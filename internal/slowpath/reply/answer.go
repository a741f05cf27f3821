// SPDX-License-Identifier: Apache-2.0

// Package reply is what package slowpath answers by itself.
package reply

import (
	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
)

// Answer is a response of the proxy itself: a local reply, or what a route answers.
type Answer struct {
	Status int
	Body   string
	// Fields besides those of the framing, of the connection and the date. A
	// content type of their own goes before the usual one.
	Fields []head.Field
	// AsIs: what the route changes in responses is not for this one.
	AsIs bool
	// Close: the connection serves no further request.
	Close bool
}

// Write writes and flushes the answer.
func (a Answer) Write(w *h1.Writer, view h1.ClientView) error {
	return w.Local(a.Status, a.Fields, a.Body, view)
}

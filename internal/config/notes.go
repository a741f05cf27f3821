// SPDX-License-Identifier: Apache-2.0

package config

import (
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/config/schema"
	"github.com/xlb-project/xlb/internal/problem"
)

// Note is about a field that is accepted although XLB does not do what it says.
type Note = schema.Note

// Notes are those on the bootstrap.
func (b *Bootstrap) Notes() []Note { return b.notes }

// NotesOn are those on a resource that CheckResource has accepted.
func (b *Bootstrap) NotesOn(kind Kind, name string, body *anypb.Any) []Note {
	m := kind.newMessage()
	if kind != Listeners || body.UnmarshalTo(m) != nil {
		return nil // no field of the others is noted
	}
	notes := schema.CheckResource(problem.NewList(), m, b.options.schema)
	for i := range notes {
		notes[i].Resource = "listener " + name
	}
	return notes
}

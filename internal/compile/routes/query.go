// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// literalsOfParameter is literalsOf for a query parameter, which is compared like a header.
func literalsOfParameter(q *matcher.QueryMatch) []literal {
	like := matcher.HeaderMatch{Name: tables.ParameterMark + q.Name, Kind: matcher.HeaderPresent, Invert: q.Absent}
	if q.String != nil {
		like.Kind, like.String, like.Invert = matcher.HeaderString, *q.String, false
	}
	literals, _ := literalsOf(&like)
	return literals
}

// subject says what a name in Table.Fields stands for, for a note.
func subject(field string) (kind, name string) {
	if parameter, is := tables.ParameterOf(field); is {
		return "query parameter", parameter
	}
	return "header", field
}

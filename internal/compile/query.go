// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"strings"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// parameterMark begins the names of query parameters in conditions and Table.Fields: no header's name has it.
const parameterMark = "?"

// parameterOf returns the query parameter that a name in Table.Fields stands for, if it does.
func parameterOf(name string) (parameter string, is bool) {
	return strings.CutPrefix(name, parameterMark)
}

// literalsOfParameter is literalsOf for a query parameter, which is compared like a header.
func literalsOfParameter(q *model.QueryMatch) []literal {
	like := model.HeaderMatch{Name: parameterMark + q.Name, Kind: model.HeaderPresent, Invert: q.Absent}
	if q.String != nil {
		like.Kind, like.String, like.Invert = model.HeaderString, *q.String, false
	}
	literals, _ := literalsOf(&like)
	return literals
}

// kindOf returns the flag of a table that asks about what a name in Table.Fields stands for.
func kindOf(name string) maps.TableFlags {
	switch {
	case strings.HasPrefix(name, ":"):
		return maps.TablePseudo
	case strings.HasPrefix(name, parameterMark):
		return maps.TableQuery
	default:
		return maps.TableFields
	}
}

// subject says what a name in Table.Fields stands for, for a note.
func subject(field string) (kind, name string) {
	if parameter, is := parameterOf(field); is {
		return "query parameter", parameter
	}
	return "header", field
}

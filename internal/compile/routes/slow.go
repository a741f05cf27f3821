// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/xlb-project/xlb/internal/compile/note"
)

// slowRoutes collects the positions of the routes of a virtual host that the kernel cannot always
// decide, by reason.
type slowRoutes map[string]map[int]bool

// add notes a route, which may be noted already.
func (s slowRoutes) add(reason string, position int) {
	if s[reason] == nil {
		s[reason] = map[int]bool{}
	}
	s[reason][position] = true
}

// notes are one for each reason, however many routes there are. What was noted is counted as position says.
func (s slowRoutes) notes(where string, position func(int) int) []note.Note {
	var list []note.Note
	for _, reason := range slices.Sorted(maps.Keys(s)) {
		var positions []int
		for p := range s[reason] {
			positions = append(positions, position(p))
		}
		slices.Sort(positions)
		list = append(list, note.Note{
			Where:  fmt.Sprintf("%s: %s", where, routeNumbers(slices.Compact(positions))),
			Reason: reason + "; the slow path serves the requests that may match",
		})
	}
	slices.SortStableFunc(list, func(a, b note.Note) int { return strings.Compare(a.Where, b.Where) })
	return list
}

// maxNumbers bounds how many routes a note names.
const maxNumbers = 8

// routeNumbers counts from 1: "route 3", "route 3, 7".
func routeNumbers(positions []int) string {
	var numbers []string
	for _, p := range positions[:min(len(positions), maxNumbers)] {
		numbers = append(numbers, strconv.Itoa(p+1))
	}
	text := "route " + strings.Join(numbers, ", ")
	if more := len(positions) - maxNumbers; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

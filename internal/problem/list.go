// SPDX-License-Identifier: Apache-2.0

package problem

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// List collects the problems of one file. NewList makes one.
//
// One mistake makes one line: a problem inside a field that has been reported
// already is dropped, and so is a complaint about a field that decoding had to
// empty because something inside it could not be read.
type List struct {
	all      []*FieldError
	reported map[string]bool
	// incomplete holds the ancestors of what decoding left out, and what a
	// refused field stands in place of.
	incomplete map[string]bool
}

// NewList returns a List without problems.
func NewList() *List {
	return &List{reported: map[string]bool{}, incomplete: map[string]bool{}}
}

// Add reports a problem at path unless it follows from an earlier one.
func (p *List) Add(path, format string, args ...any) {
	path = strings.TrimPrefix(path, ".") // where the resource has no path in front
	if p.incomplete[path] {
		return
	}
	for a, ok := path, true; ok; a, ok = parent(a) {
		if p.reported[a] {
			return
		}
	}
	p.reported[path] = true
	p.all = append(p.all, &FieldError{Path: path, Reason: oneLine(fmt.Sprintf(format, args...))})
}

// AddLeftOut reports a problem at path, where decoding had to leave the value
// out.
func (p *List) AddLeftOut(path, format string, args ...any) {
	p.Add(path, format, args...)
	for a, ok := parent(path); ok; a, ok = parent(a) {
		p.incomplete[a] = true
	}
}

// Refuse reports an unsupported field. If it stands for another member of its
// oneof, a complaint that the other one is missing would add nothing.
func (p *List) Refuse(fd protoreflect.FieldDescriptor, path, reason string) {
	p.Add(path, "%s", reason)
	message, _ := parent(path)
	if oneof := fd.ContainingOneof(); oneof != nil {
		p.incomplete[message] = true
		for i := range oneof.Fields().Len() {
			if other := oneof.Fields().Get(i); other != fd {
				p.incomplete[Field(message, string(other.Name()))] = true
			}
		}
	}
}

// All are the problems, in the order in which they were reported.
func (p *List) All() []*FieldError { return p.all }

// Err joins the problems in the order of their paths, each with the name of
// the file in front, or returns nil.
func (p *List) Err(name string) error {
	slices.SortStableFunc(p.all, func(a, b *FieldError) int { return comparePaths(a.Path, b.Path) })
	return Join(name, p.all)
}

// Joined joins the problems in the order of their paths, or returns nil.
func (p *List) Joined() error {
	slices.SortStableFunc(p.all, func(a, b *FieldError) int { return comparePaths(a.Path, b.Path) })
	errs := make([]error, len(p.all))
	for i, e := range p.all {
		errs[i] = e
	}
	return errors.Join(errs...)
}

// At appends an index to the path of a repeated field.
func At(path string, i int) string {
	return path + "[" + strconv.Itoa(i) + "]"
}

// Key appends a name to the path of a map.
func Key(path, name string) string {
	return path + "[" + strconv.Quote(name) + "]"
}

// parent cuts the last name or index off a path.
func parent(path string) (string, bool) {
	i := strings.LastIndexAny(path, ".[")
	if i < 0 {
		return "", path != ""
	}
	return path[:i], true
}

// comparePaths orders paths by name and, inside a list, by number.
func comparePaths(a, b string) int {
	split := func(r rune) bool { return strings.ContainsRune(".[] ", r) }
	return slices.CompareFunc(strings.FieldsFunc(a, split), strings.FieldsFunc(b, split), compareParts)
}

func compareParts(a, b string) int {
	na, errA := strconv.Atoi(a)
	nb, errB := strconv.Atoi(b)
	if errA == nil && errB == nil {
		return cmp.Compare(na, nb)
	}
	return cmp.Compare(a, b)
}

func oneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}

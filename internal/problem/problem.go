// SPDX-License-Identifier: Apache-2.0

// Package problem says what is wrong with a configuration, field by field, in
// one form for all of XLB's files.
package problem

import (
	"errors"
	"fmt"
)

// FieldError is one problem of a configuration: where it is, which rule it
// breaks, and what to do about it. It prints as a single line.
type FieldError struct {
	// Path names the field from the root of the file, as
	// static_resources.listeners[0].address. For a problem of syntax it is
	// "line N", for one of the whole file it is empty.
	Path string
	// Reason is the rule and the remedy.
	Reason string
}

func (e *FieldError) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return e.Path + ": " + e.Reason
}

// Join joins problems, each with the name of the file in front, or returns nil
// when there are none; errors.As finds a *FieldError in it.
func Join(name string, list []*FieldError) error {
	errs := make([]error, len(list))
	for i, e := range list {
		errs[i] = fmt.Errorf("%s: %w", name, e)
	}
	return errors.Join(errs...)
}

// Field appends a field's name to the path of what it is in.
func Field(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// SPDX-License-Identifier: Apache-2.0

// Package problem says what is wrong with a configuration, field by field, in
// one form for all of XLB's files.
package problem

import (
	"errors"
	"fmt"

	"github.com/xlb-project/xlb/internal/plural"
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

// most is how many problems of a file are told: a mistake of whatever writes it is in each of its resources, and the log has all in one line.
const most = 100

// Join joins problems, each with the name of the file in front, or returns nil
// when there are none; errors.As finds a *FieldError in it. Behind the first 100
// it says how many there are.
func Join(name string, list []*FieldError) error {
	var errs []error
	for _, e := range list[:min(most, len(list))] {
		errs = append(errs, fmt.Errorf("%s: %w", name, e))
	}
	if more := len(list) - most; more > 0 {
		errs = append(errs, fmt.Errorf("%s: and %s; correct these first", name, plural.Of(more, "more problem")))
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

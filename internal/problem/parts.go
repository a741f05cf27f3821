// SPDX-License-Identifier: Apache-2.0

package problem

import (
	"errors"
	"reflect"
)

// PartsOf takes an error apart: each FieldError that is joined in it, in its order, and each other part as one without a path. It is empty for nil.
func PartsOf(err error) []*FieldError {
	if err == nil {
		return nil
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		// errors.As would look into what is joined as well.
		if field, ok := any(inner).(*FieldError); ok {
			return []*FieldError{field}
		}
		if parts := joinedIn(inner); parts != nil {
			var out []*FieldError
			for _, part := range parts {
				out = append(out, PartsOf(part)...)
			}
			return out
		}
	}
	return []*FieldError{{Reason: err.Error()}}
}

// joined is the type of what errors.Join returns. What else wraps several errors, as fmt.Errorf does, has a text of its own.
var joined = reflect.TypeOf(errors.Join(errors.New("")))

// joinedIn are the errors that errors.Join has made one of; nil: it has not.
func joinedIn(err error) []error {
	if reflect.TypeOf(err) != joined {
		return nil
	}
	return err.(interface{ Unwrap() []error }).Unwrap()
}

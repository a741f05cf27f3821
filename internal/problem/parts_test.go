// SPDX-License-Identifier: Apache-2.0

package problem

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestErrorsAreTakenApart(t *testing.T) {
	first, second, plain := &FieldError{"a.b", "required"}, &FieldError{"", "empty"}, errors.New("no such file")
	for _, c := range []struct {
		name string
		err  error
		want []*FieldError
	}{
		{"nothing", nil, nil},
		{"one field", first, []*FieldError{first}},
		{"fields of a file", Join("a.yaml", []*FieldError{first, second}), []*FieldError{first, second}},
		{"the same, wrapped", fmt.Errorf("read: %w", Join("a.yaml", []*FieldError{first, second})), []*FieldError{first, second}},
		{"no field", fmt.Errorf("read: %w", plain), []*FieldError{{"", "read: no such file"}}},
		{"fields and others", errors.Join(first, errors.Join(plain, second)), []*FieldError{first, {"", "no such file"}, second}},
		{"several in a sentence", fmt.Errorf("%w, after %w", plain, second), []*FieldError{{"", "no such file, after empty"}}},
	} {
		if diff := cmp.Diff(c.want, PartsOf(c.err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

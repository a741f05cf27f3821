// SPDX-License-Identifier: Apache-2.0

package problem

import (
	"errors"
	"testing"
)

func TestProblemsAreOneLineEachWithTheNameInFront(t *testing.T) {
	err := Join("a.yaml", []*FieldError{{Path: Field(Field("", "client"), "vips"), Reason: "required"}, {Reason: "empty"}})
	if want := "a.yaml: client.vips: required\na.yaml: empty"; err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
	var field *FieldError
	if !errors.As(err, &field) || field.Path != "client.vips" {
		t.Errorf("the first problem found is %v", field)
	}
	if err := Join("a.yaml", nil); err != nil {
		t.Errorf("%v without problems", err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package problem

import (
	"errors"
	"strings"
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

func TestOfManyProblemsTheFirstAreTold(t *testing.T) {
	list := make([]*FieldError, 1e6)
	for i := range list {
		list[i] = &FieldError{Reason: "wrong"}
	}
	for n, want := range map[int]string{most: "a.yaml: wrong", most + 1: "a.yaml: and 1 more problem; correct these first", 1e6: "a.yaml: and 999900 more problems; correct these first"} {
		lines := strings.Split(Join("a.yaml", list[:n]).Error(), "\n")
		if last := lines[len(lines)-1]; last != want || len(lines) > most+1 {
			t.Errorf("%d problems: %d lines, the last %q, want %q", n, len(lines), last, want)
		}
	}
}

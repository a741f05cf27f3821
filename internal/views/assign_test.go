// SPDX-License-Identifier: Apache-2.0

package views

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A number is never another view's, not even that of a view which has gone.
func TestANameKeepsItsNumber(t *testing.T) {
	numberOf := NumberByName{}
	for _, tt := range []struct {
		names []string
		want  []uint32
	}{
		{[]string{"a", "b"}, []uint32{1, 2}},
		{[]string{"c", "b"}, []uint32{3, 2}},
		{nil, nil},
		{[]string{"d", "a"}, []uint32{4, 1}},
	} {
		f := &File{}
		for _, name := range tt.names {
			v := View{}
			v.Name = name
			f.Views = append(f.Views, v)
		}
		numberOf.Assign(f)
		var got []uint32
		for _, v := range f.Views {
			got = append(got, v.Number)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.names, diff)
		}
	}
}

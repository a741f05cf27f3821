// SPDX-License-Identifier: Apache-2.0

package views

// NumberByName has the numbers of views, by their names. A name keeps its number, and no other ever gets that: connections may be left of a view that has gone.
type NumberByName map[string]uint32

// Assign numberOf the views of a file, from 1 on.
func (n NumberByName) Assign(f *File) {
	for i := range f.Views {
		v := &f.Views[i]
		if n[v.Name] == 0 {
			n[v.Name] = uint32(len(n)) + 1
		}
		v.Number = n[v.Name]
	}
}

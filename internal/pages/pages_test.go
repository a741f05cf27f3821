// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/xlb-project/xlb/test/suite"
)

// A list is what it was when it was made, whatever the lists behind it are.
func TestListsStayAsTheyAre(t *testing.T) {
	random := rand.New(rand.NewPCG(suite.Seed(t), 0))
	type version struct {
		list List[int]
		want map[uint32]int
	}
	versions := []version{{List[int]{}, map[uint32]int{}}}
	for range 200 {
		before := versions[random.IntN(len(versions))]
		edit, want := before.list.Edit(), maps.Clone(before.want)
		for range random.IntN(5) {
			index, n := random.Uint32N(5*pageSize), random.IntN(100)
			if n < 40 {
				edit.Set(index, nil)
				delete(want, index)
				continue
			}
			edit.Set(index, &n)
			want[index] = n
			if got := edit.At(index); got == nil || *got != n {
				t.Fatalf("entry %d of the next list: got %v, want %d", index, got, n)
			}
		}
		versions = append(versions, version{*edit.List(), want})
	}
	for i, v := range versions {
		got := map[uint32]int{}
		for index, n := range v.list.All() {
			got[index] = *n
			if at := v.list.At(index); at != n {
				t.Errorf("list %d, entry %d: got %p, want %p", i, index, at, n)
			}
		}
		if !maps.Equal(got, v.want) {
			t.Errorf("list %d: got %v, want %v", i, got, v.want)
		}
	}
	var none List[int]
	if none.At(7) != nil {
		t.Error("the empty list has an entry")
	}
}

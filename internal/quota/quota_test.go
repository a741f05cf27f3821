// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"reflect"
	"testing"
)

// takeAll takes entries for users in turn until none gets another.
func takeAll(table *Table[string], users ...string) map[string]int {
	got := map[string]int{}
	for isOpen := true; isOpen; {
		isOpen = false
		for _, u := range users {
			if table.Take(u) {
				got[u]++
				isOpen = true
			}
		}
	}
	return got
}

func TestOneUserHasAsManyEntriesAsAreFree(t *testing.T) {
	for _, tt := range []struct {
		name   string
		part   int
		shared bool
		users  []string
		want   map[string]int
	}{
		{"one alone, not shared", 1, false, []string{"a"}, map[string]int{"a": 120}},
		{"one", 1, true, []string{"a"}, map[string]int{"a": 60}},
		{"two", 1, true, []string{"a", "b"}, map[string]int{"a": 40, "b": 40}},
		{"five", 1, true, []string{"a", "b", "c", "d", "e"}, map[string]int{"a": 20, "b": 20, "c": 20, "d": 20, "e": 20}},
		{"an eighth of what is free", 8, true, []string{"a"}, map[string]int{"a": 14}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := New[string](120, tt.part)
			table.SetShared(tt.shared)
			if got := takeAll(table, tt.users...); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("taken: %v, want %v", got, tt.want)
			}
			if tt.shared && !table.Allows("newcomer") {
				t.Error("nothing is left for another user")
			}
		})
	}
}

func TestOneUserAloneMayHaveMoreThanTheTableHasWhileItIsShared(t *testing.T) {
	table := New[string](100, 1)
	table.SetSize(4)
	for range 6 {
		if !table.Take("a") {
			t.Fatal("one user alone did not get an entry")
		}
	}
	table.SetShared(true)
	if table.Take("a") || table.Take("b") {
		t.Error("an entry was taken, and all are taken")
	}
	for range 4 {
		table.Return("a")
	}
	if !table.Take("b") || table.Take("a") {
		t.Error("of the two that are free the user without entries is to get one, the one that has two none")
	}
}

func TestATableThatIsFullHasNothingForAUserWithoutEntries(t *testing.T) {
	table := New[string](4, 1)
	takeAll(table, "a")
	table.SetShared(true)
	if table.Allows("b") || table.Take("b") {
		t.Error("an entry was taken of a table that has none free")
	}
	table.Return("a")
	if !table.Take("b") {
		t.Error("no entry was taken, and one is free")
	}
	if table.Take("a") {
		t.Error("one that has more than are free took another")
	}
}

func TestUsageSaysWhoHasWhatAndWasRefused(t *testing.T) {
	table := New[string](4, 1)
	table.SetShared(true)
	takeAll(table, "a")
	want := Usage[string]{Size: 4, Taken: 2, Refused: 1, By: map[string]Use{"a": {Taken: 2, Refused: 1}}}
	if got := table.Usage(); !reflect.DeepEqual(got, want) {
		t.Errorf("usage: %+v, want %+v", got, want)
	}
	if a, b := table.TakenBy("a"), table.TakenBy("b"); a != 2 || b != 0 {
		t.Errorf("taken by a and b: %d and %d, want 2 and 0", a, b)
	}
	table.Forget("a")
	want.By = map[string]Use{}
	if got := table.Usage(); !reflect.DeepEqual(got, want) {
		t.Errorf("usage when the user is over: %+v, want %+v", got, want)
	}
	table.Return("a")
	table.Return("a")
	want.Taken = 0
	if got := table.Usage(); !reflect.DeepEqual(got, want) || len(table.users) != 0 {
		t.Errorf("usage when all was given back: %+v with %d users, want %+v with none", got, len(table.users), want)
	}
}

func TestUsersWithoutEntriesTakeNoMemory(t *testing.T) {
	table := New[int](4, 1)
	for k := range 1000 {
		if !table.Take(k) {
			t.Fatal("no entry was taken")
		}
		table.Return(k)
	}
	if n := len(table.users); n != 0 {
		t.Errorf("%d users are remembered, want none", n)
	}
	for k := range 1000 {
		table.Allows(k)
		table.Forget(k)
	}
	if n := len(table.users); n != 0 {
		t.Errorf("%d users are remembered, want none", n)
	}
}

// One user may be several members, which come and go.
func TestAUserIsForgottenBehindItsLastMember(t *testing.T) {
	table := New[string](4, 1)
	table.SetShared(true)
	for range 2 {
		table.Join("a")
	}
	table.Join("b")
	takeAll(table, "a")
	if got := table.Joined(); got != 2 {
		t.Errorf("users with members: %d, want 2", got)
	}
	table.Leave("a")
	its := map[string]Use{"a": {Taken: 2, Refused: 1}}
	if got := table.Usage().By; !reflect.DeepEqual(got, its) || table.Joined() != 2 {
		t.Errorf("with a member left: %+v of %d users, want %+v of 2", got, table.Joined(), its)
	}
	table.Leave("a")
	if got := table.Usage(); len(got.By) != 0 || got.Taken != 2 || table.Joined() != 1 {
		t.Errorf("without members: %+v, want two entries of no user that is known", got)
	}
	table.Return("a")
	table.Return("a")
	table.Leave("b")
	if len(table.users) != 0 || table.Joined() != 0 {
		t.Errorf("%d users are remembered, want none", len(table.users))
	}
}

func TestLeavingWithoutJoiningPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("it did not panic: the number of users would be wrong from now on")
		}
	}()
	table := New[int](4, 1)
	table.Join(1)
	table.Leave(1)
	table.Leave(1)
}

func TestGivingBackWhatWasNotTakenPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("it did not panic: the count would be wrong from now on")
		}
	}()
	New[int](4, 1).Return(1)
}

// What one user has taken while it was alone it keeps, and takes no more until others' parts are free.
func TestATableMayHaveFewerEntriesWhileItIsShared(t *testing.T) {
	table := New[string](8, 1)
	table.SetSize(4)
	if got := takeAll(table, "a")["a"]; got != 8 {
		t.Errorf("entries of one that is alone: got %d, want 8", got)
	}
	table.SetShared(true)
	for range 5 {
		if table.Allows("a") || table.Allows("b") {
			t.Fatalf("an entry may be taken while %+v", table.Usage())
		}
		table.Return("a")
	}
	if size, free := table.Capacity(); size != 4 || free != 1 || table.Allows("a") || !table.Allows("b") {
		t.Errorf("of %d entries %d are free, a may have another %t, b %t; want 1 of 4, for b alone", size, free, table.Allows("a"), table.Allows("b"))
	}
	table.SetSize(9)
	if got, want := takeAll(table, "a", "b"), (map[string]int{"a": 1, "b": 3}); !reflect.DeepEqual(got, want) {
		t.Errorf("taken of a table that has grown: %v, want %v", got, want)
	}
}

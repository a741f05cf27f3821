// SPDX-License-Identifier: Apache-2.0

// Package quota divides the entries of a table among those that use it: while several do, one may have as many as are left free.
//
// So one that takes all it can has half of the table, two that do have a third each, and there is always as much free as each of them has. It needs no number for
// each user, and no reserve for those that have yet to come (Choudhury and Hahne, Dynamic Queue Length Thresholds for Shared-Memory Packet Switches, 1998).
package quota

import "sync"

// Table is who has how many entries of a table. It is safe for concurrent use, and calls nothing.
type Table[K comparable] struct {
	mu sync.Mutex
	// All is guarded by mu. size is how many entries there may be while the table is shared, alone how many otherwise.
	size     int
	alone    int
	part     int
	isShared bool
	taken    int
	refused  uint64
	users    map[K]*user
	// joined counts the users that have members.
	joined int
}

type user struct {
	taken   int
	refused uint64
	// members are those that have joined and not left.
	members int
	// isOver: it takes no more. It is forgotten when it has given all back.
	isOver bool
}

// Use is what one user has of a table.
type Use struct {
	Taken   int
	Refused uint64
}

// Usage is the state of a table.
type Usage[K comparable] struct {
	// Size is how many entries it has while it is shared, Taken how many are in use, which may be more: they may have been taken before.
	Size, Taken int
	// Refused is how many were refused since its beginning, to users that are over, too.
	Refused uint64
	// By has the users that have entries, or were refused some, and are not over.
	By map[K]Use
}

// New is a table of so many entries, of which one user may have a part-th of those that are free: 1 for as many as are free.
func New[K comparable](size, part int) *Table[K] {
	return &Table[K]{size: size, alone: size, part: max(part, 1), users: map[K]*user{}}
}

// SetSize sets how many entries there may be while the table is shared. Otherwise there may be as many as New has said. Those that are taken stay.
func (t *Table[K]) SetSize(size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.size = size
}

// SetShared says whether several users may come. Until it is called, or with false, one may have all entries.
func (t *Table[K]) SetShared(is bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.isShared = is
}

// Join has a member of a user take part: several workloads may be one user. Leave is its counterpart. The user is forgotten behind its last member.
func (t *Table[K]) Join(of K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.userLocked(of)
	if u.members == 0 {
		t.joined++
	}
	u.members++
	u.isOver = false
}

// Leave is the counterpart of Join.
func (t *Table[K]) Leave(of K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.users[of]
	if u == nil || u.members == 0 {
		panic("quota: a user is left that was not joined")
	}
	if u.members--; u.members == 0 {
		t.joined--
		t.forgetLocked(of, u)
	}
}

// Joined is how many users have members.
func (t *Table[K]) Joined() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.joined
}

func (t *Table[K]) userLocked(of K) *user {
	u := t.users[of]
	if u == nil {
		u = &user{}
		t.users[of] = u
	}
	return u
}

// Take takes an entry for a user. false: it gets none, which is counted.
func (t *Table[K]) Take(of K) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.userLocked(of)
	if !t.allowsLocked(u) {
		u.refused++
		t.refused++
		return false
	}
	u.taken++
	u.isOver = false
	t.taken++
	return true
}

// Allows reports whether Take would take one. It counts nothing.
func (t *Table[K]) Allows(of K) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.users[of]
	if u == nil {
		u = &user{}
	}
	return t.allowsLocked(u)
}

// TakenBy is how many entries a user has.
func (t *Table[K]) TakenBy(of K) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u := t.users[of]; u != nil {
		return u.taken
	}
	return 0
}

// Exceeds reports whether a user has more entries than it could take now, others having come meanwhile.
func (t *Table[K]) Exceeds(of K) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.users[of]
	return u != nil && t.isShared && (u.taken-1)*t.part > t.freeLocked()
}

func (t *Table[K]) allowsLocked(u *user) bool {
	free := t.freeLocked()
	return free > 0 && (!t.isShared || u.taken*t.part < free)
}

func (t *Table[K]) freeLocked() int {
	if t.isShared {
		return t.size - t.taken
	}
	return t.alone - t.taken
}

// Capacity is how many entries there may be now, and how many of them are free, 0 where more are taken.
func (t *Table[K]) Capacity() (size, free int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	free = t.freeLocked()
	return free + t.taken, max(free, 0)
}

// Return takes an entry back that Take has handed out.
func (t *Table[K]) Return(of K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.users[of]
	if u == nil || u.taken == 0 {
		panic("quota: an entry is given back that was not taken")
	}
	u.taken--
	t.taken--
	if u.taken == 0 && u.members == 0 && (u.isOver || u.refused == 0) {
		delete(t.users, of)
	}
}

// Forget drops what is known of a user that takes no more entries, once it has given all back. One that takes some again is another user.
func (t *Table[K]) Forget(of K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u := t.users[of]; u != nil {
		t.forgetLocked(of, u)
	}
}

func (t *Table[K]) forgetLocked(of K, u *user) {
	if u.taken == 0 {
		delete(t.users, of)
		return
	}
	u.isOver = true
}

// Usage is the current state.
func (t *Table[K]) Usage() Usage[K] {
	t.mu.Lock()
	defer t.mu.Unlock()
	usage := Usage[K]{Size: t.size, Taken: t.taken, Refused: t.refused, By: make(map[K]Use, len(t.users))}
	for k, u := range t.users {
		if !u.isOver && (u.taken > 0 || u.refused > 0) {
			usage.By[k] = Use{Taken: u.taken, Refused: u.refused}
		}
	}
	return usage
}

// SPDX-License-Identifier: Apache-2.0

// Package memo keeps results from one round of work for the next: who does nearly the same again does only what is new.
package memo

// Memo holds the results of a function, by its arguments. They must depend on nothing else, so that it makes no difference, but of
// time, whether a result is found. It is not safe for concurrent use.
type Memo[K comparable, V any] struct {
	results map[K]*result[V]
	round   uint64
	size    int
	limit   int
	// uses is where to note what is used; nil: nowhere.
	uses *Uses
}

type result[V any] struct {
	value V
	size  int
	used  uint64 // the last round that asked for it
}

// New returns an empty memo for results of a total size; the unit is the caller's.
func New[K comparable, V any](limit int) *Memo[K, V] {
	return &Memo[K, V]{results: map[K]*result[V]{}, limit: limit}
}

// Get returns a result, if it is known.
func (m *Memo[K, V]) Get(key K) (value V, known bool) {
	r := m.results[key]
	if r == nil {
		return value, false
	}
	m.use(r)
	return r.value, true
}

// Put keeps a result that Get did not find, if there is room for it. What has not been used for long makes room when the round ends, so
// that what is kept does not depend on what else was asked for before.
func (m *Memo[K, V]) Put(key K, value V, size int) {
	if m.size+size > m.limit {
		return
	}
	m.size += size
	r := &result[V]{value: value, size: size}
	m.results[key] = r
	m.use(r)
}

func (m *Memo[K, V]) use(r *result[V]) {
	r.used = m.round
	if m.uses != nil {
		m.uses.rounds = append(m.uses.rounds, &r.used)
	}
}

// Uses are results that a part of the work has used. Who takes over what came of that part keeps them for the next time that it has to be done.
type Uses struct {
	// rounds are those of the results.
	rounds []*uint64
}

// Note has what is used from now on noted, until it is called with nil.
func (m *Memo[K, V]) Note(uses *Uses) { m.uses = uses }

// UseAgain has the effect of the same uses in this round.
func (m *Memo[K, V]) UseAgain(uses *Uses) {
	for _, used := range uses.rounds {
		*used = m.round
	}
}

// EndRound drops what neither this round nor the one before has used: two, because a configuration that is refused is followed by the one
// before.
func (m *Memo[K, V]) EndRound() {
	for key, r := range m.results {
		if r.used+1 < m.round {
			m.size -= r.size
			delete(m.results, key)
		}
	}
	m.round++
}

// Size is the total size of what is kept.
func (m *Memo[K, V]) Size() int { return m.size }

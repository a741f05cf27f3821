// SPDX-License-Identifier: Apache-2.0

package shares

// Nodes is how many tenants and branches a scheduler remembers.
func (s *Scheduler) Nodes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes
}

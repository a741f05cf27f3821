// SPDX-License-Identifier: Apache-2.0

package shares

// Nodes is how many tenants and branches a desk remembers.
func (d *Desk) Nodes() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nodes
}

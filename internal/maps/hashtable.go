// SPDX-License-Identifier: Apache-2.0

package maps

import "github.com/xlb-project/xlb/internal/hashing"

// HashTable is how a cluster whose policy hashes finds endpoints. It is never changed.
type HashTable struct {
	hashing.Table
	// Endpoints are the indices of the table's hosts.
	Endpoints []uint32
	// BalanceFactor bounds the load of an endpoint; see hashing.PickBounded.
	BalanceFactor uint32
}

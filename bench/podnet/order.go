// SPDX-License-Identifier: Apache-2.0

package podnet

import "slices"

// Order is the order of a round, which counts from 0: those of all that are chosen, beginning with another one in each round, so that none always comes
// behind the same.
func Order(all, chosen []string, cycle int) []string {
	var order []string
	for _, one := range all {
		if slices.Contains(chosen, one) {
			order = append(order, one)
		}
	}
	if len(order) == 0 {
		return nil
	}
	first := cycle % len(order)
	return append(order[first:len(order):len(order)], order[:first]...)
}

// SPDX-License-Identifier: Apache-2.0

package routes

// merge goes through two sorted lists side by side: what only the one or only the other has, and what both have. Each list has a key
// once; compare orders an element of the second list against one of the first.
func merge[A, B any](have []A, want []B, compare func(B, A) int, gone func(*A), added func(*B), kept func(*A, *B)) {
	for len(have) > 0 || len(want) > 0 {
		switch order := orderOfNext(have, want, compare); {
		case order < 0:
			added(&want[0])
			want = want[1:]
		case order > 0:
			gone(&have[0])
			have = have[1:]
		default:
			kept(&have[0], &want[0])
			have, want = have[1:], want[1:]
		}
	}
}

// orderOfNext is negative when the second list's element comes next, positive when the first's does. One list may be empty.
func orderOfNext[A, B any](have []A, want []B, compare func(B, A) int) int {
	switch {
	case len(have) == 0:
		return -1
	case len(want) == 0:
		return 1
	}
	return compare(want[0], have[0])
}

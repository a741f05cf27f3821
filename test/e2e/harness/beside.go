// SPDX-License-Identifier: Apache-2.0

package harness

import "testing"

// Beside lets a test run at the same time as others that call it, as many as -test.parallel says: a part of a test beside its other parts, a
// whole one when all tests that do not call it have ended. It is for tests that wait most of the time. Such a test has servers and services of
// its own, and a balancer, or at least a cluster; it judges neither what this machine holds altogether, as its TCP memory, nor times that
// work beside it would stretch.
func Beside(t *testing.T) {
	t.Helper()
	t.Parallel()
}

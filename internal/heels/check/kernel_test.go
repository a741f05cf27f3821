// SPDX-License-Identifier: Apache-2.0

package check

import "testing"

// A kernel on which the agent runs has what the agent needs: it does without iterators over maps where the kernel forbids them.
func TestCheckFindsAKernelThatTheAgentRunsOn(t *testing.T) {
	checkPrograms().wants(t, Fine, "loads all programs")
}

// SPDX-License-Identifier: Apache-2.0

package maps

// guardNames are the labels of guards in metrics, logs and statistics.
var guardNames = [GuardCount]string{
	GuardCut:        "cut",
	GuardShort:      "short",
	GuardConcurrent: "concurrent",
	GuardSequence:   "sequence",
	GuardUrgent:     "urgent",
	GuardUnasked:    "unasked",
}

// GuardName is the label of a guard: "cut" for GuardCut.
func GuardName(g Guard) string {
	if g >= GuardCount {
		return "unknown"
	}
	return guardNames[g]
}

// SPDX-License-Identifier: Apache-2.0

package check

import "testing"

func TestTracepointsAreThoseThatProgramsCanBeAttachedTo(t *testing.T) {
	if !Privileged() {
		t.Skip("root attaches programs")
	}
	if got := attempts(tracepoints, tracepoint.attach)(); got.Status != OK || got.Detail != "sock_send_length" {
		t.Errorf("got %+v", got)
	}
	got := attempts([]tracepoint{"sock_send_nothing"}, tracepoint.attach)()
	if got.Status != Missing || got.Detail != "sock_send_nothing: not supported" || got.Remedy == "" {
		t.Errorf("tracepoint that there is not: %+v", got)
	}
}

// SPDX-License-Identifier: Apache-2.0

package datapath

import "testing"

func TestProbeReachesAVerdict(t *testing.T) {
	k, err := Probe()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", k)
	// Every kernel that has been tried stamps; one that does not makes a check in the request program useless.
	if !k.ReadsStamped {
		t.Error("a receive call leaves no time in the socket: see lib/kernel.h")
	}
	if k.SocketReferences == 0 || k.SocketReferences > 8 {
		t.Errorf("references to an idle socket: got %d, want a few", k.SocketReferences)
	}
	if k.RedirectReferences == 0 || k.RedirectReferences > 2 {
		t.Errorf("references that a redirect holds: got %d, want 1 or 2", k.RedirectReferences)
	}
}

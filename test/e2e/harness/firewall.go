// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"os/exec"
	"strings"
	"testing"
)

// Firewall puts rules of nftables in force, in an isolated place, where they end with it.
func (p *Place) Firewall(t testing.TB, rules string) {
	t.Helper()
	if _, err := exec.LookPath("nft"); err != nil {
		t.Fatal("nft is missing; install nftables")
	}
	p.inside(t, func() error {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(rules)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("nft: %v: %s", err, out)
		}
		return nil
	})
}

// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netns"

	"github.com/xlb-project/xlb/test/machine"
)

// TestCubicIsUsedWhereTheMachineDoesNotAllowIt takes CUBIC from what
// namespaces of the machine may choose, and expects it to be chosen, and
// afterwards still not allowed.
func TestCubicIsUsedWhereTheMachineDoesNotAllowIt(t *testing.T) {
	without, err := machine.Change(allowedCongestionControl, "reno")
	if err != nil {
		t.Fatalf("take CUBIC away (run as root): %v", err)
	}
	t.Cleanup(func() {
		if err := without.Restore(); err != nil {
			t.Error(err)
		}
	})
	fresh := newNamespace(t)
	err = Within(fresh, func() error {
		if err := UseCubic(); err != nil {
			return err
		}
		if got := readFields(t, congestionControl); len(got) != 1 || got[0] != cubic {
			t.Errorf("%s = %q, want %s", congestionControl, got, cubic)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// The preferred one of the machine is allowed always.
	if after := readFields(t, allowedCongestionControl); strings.Contains(strings.Join(after, " "), cubic) {
		t.Errorf("%s = %q after UseCubic(), want no %s", allowedCongestionControl, after, cubic)
	}
}

func newNamespace(t *testing.T) (made netns.NsHandle) {
	t.Helper()
	own, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	err = Within(own, func() error {
		made, err = netns.New()
		return err
	})
	if err != nil {
		t.Fatalf("make a network namespace (run as root): %v", err)
	}
	t.Cleanup(func() { made.Close() })
	return made
}

func readFields(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

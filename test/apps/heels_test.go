// SPDX-License-Identifier: Apache-2.0

package apps

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The example of HEELS builds hosts of its own, counts what its balancer sees, and fails if that is too much.
func TestHEELS(t *testing.T) {
	script, err := filepath.Abs(filepath.Join("..", "..", "examples", "heels", "run"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	run := exec.CommandContext(ctx, script)
	// Its last act is to remove what it has built.
	run.Cancel = func() error { return run.Process.Signal(os.Interrupt) }
	run.WaitDelay = stopPatience
	output, err := run.CombinedOutput()
	t.Logf("%s", output)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"without HEELS: 11 connections", "the balancer saw 11 SYNs and 0 other packets", "xlb_heels_connections_total"} {
		if !strings.Contains(string(output), want) {
			t.Errorf("the example does not say %q", want)
		}
	}
	for _, left := range []string{"/run/xlb-heels-example", "/run/netns/xlb-heels-client"} {
		if _, err := os.Stat(left); !os.IsNotExist(err) {
			t.Errorf("%s is left behind: %v", left, err)
		}
	}
}

func TestHEELSUnitIsUnderstood(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	unit, err := os.ReadFile(filepath.Join("..", "..", "examples", "heels", "xlb-heels.service"))
	if err != nil {
		t.Fatal(err)
	}
	// It asks for programs that exist.
	file := filepath.Join(t.TempDir(), "xlb-heels.service")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(unit), "/usr/local/bin/xlb", "/bin/true")), 0o644); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command(analyze, "verify", file).CombinedOutput(); err != nil || len(output) > 0 {
		t.Errorf("systemd-analyze verify: %v: %s", err, output)
	}
}

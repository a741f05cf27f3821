// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/xlb-project/xlb/test/envoytest"
)

// validate runs Envoy's own check of a file.
func validate(t *testing.T, envoy, path string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), envoy, "--mode", "validate", "--disable-hot-restart", "-l", "error", "-c", path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", path, err, out)
	}
}

func TestEnvoyRunsTheExamples(t *testing.T) {
	binary := envoytest.Binary(t)
	for _, path := range examples(t) {
		validate(t, binary, path)
	}
}

func TestEnvoyRunsWhatIsAccepted(t *testing.T) {
	binary := envoytest.Binary(t)
	for _, c := range acceptances {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "envoy.yaml")
			if err := os.WriteFile(path, c.apply(t), 0o600); err != nil {
				t.Fatal(err)
			}
			validate(t, binary, path)
		})
	}
}

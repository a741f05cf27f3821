// SPDX-License-Identifier: Apache-2.0

package twin

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Envoy accepts the twin of each configuration of the tree that it accepts, if a delegate can be given it.
func TestEnvoyAcceptsTwins(t *testing.T) {
	envoy := os.Getenv("XLB_ENVOY")
	if envoy == "" {
		t.Skip("set XLB_ENVOY to the path of an Envoy")
	}
	var accepted, refused int
	for _, path := range configurations(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		twin, err := Make(text, path)
		if err != nil {
			refused++
			continue
		}
		if !validates(t, envoy, filepath.Dir(path), filepath.Base(path)) {
			continue
		}
		dir := t.TempDir()
		for _, f := range append(twin.Files, File{BootstrapFile, twin.Bootstrap}) {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, f.Name)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if accepted++; !validates(t, envoy, dir, BootstrapFile) {
			t.Errorf("%s: Envoy refuses the twin:\n%s", path, twin.Bootstrap)
		}
	}
	if t.Logf("%d twins accepted, %d configurations refused", accepted, refused); accepted < 5 {
		t.Error("few configurations were looked at")
	}
}

// configurations are the bootstraps of the tree.
func configurations(t *testing.T) (paths []string) {
	t.Helper()
	for _, root := range []string{"../../../examples", "../../../test"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".yaml") {
				return err
			}
			text, err := os.ReadFile(path)
			if bytes.Contains(text, []byte("static_resources:")) {
				paths = append(paths, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

func validates(t *testing.T, envoy, dir, file string) bool {
	t.Helper()
	cmd := exec.Command(envoy, "--mode", "validate", "-c", file, "--disable-hot-restart", "-l", "error")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("%s/%s: %v: %s", dir, file, err, out)
	}
	return err == nil
}

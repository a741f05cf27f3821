// SPDX-License-Identifier: Apache-2.0

package config

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
)

// A pipe that nobody writes to is no configuration: to wait for a writer would hang the daemon.
func TestLoadDoesNotWaitForAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe.yaml")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := Load(path)
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "empty: expected an Envoy v3 bootstrap") {
			t.Errorf("got %v, want a refusal", err)
		}
	case <-time.After(await.Patience):
		t.Error("still waiting after 10 s")
	}
}

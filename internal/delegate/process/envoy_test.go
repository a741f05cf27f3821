// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/test/envoytest"
)

// bootstrap has Envoy make a socket in its working directory.
const bootstrap = `{"admin": {"address": {"pipe": {"path": "own/admin.sock"}}}}`

func TestEnvoyRunsConfined(t *testing.T) {
	path, err := Find(envoytest.Binary(t))
	if err != nil {
		t.Fatal(err)
	}
	c := confine(t, Limits{Memory: 1 << 30, CPUs: 2})
	version, err := c.Version(t.Context(), path)
	if err != nil || numbersOf(version) == nil {
		t.Fatal(version, err)
	}
	dir := envoyDirectory(t, c.User())
	p := startCommand(t, c, Command{
		Path: path, Dir: dir,
		Args: []string{"-c", "bootstrap.json", "--disable-hot-restart", "--use-dynamic-base-id", "--concurrency", "1"},
	})
	p.awaitLines("starting main dispatch loop", 1)
	socket, err := os.Stat(filepath.Join(dir, "own/admin.sock"))
	if err != nil {
		t.Fatal(err)
	}
	if mode := socket.Mode().Perm(); mode&0o007 != 0 {
		t.Errorf("its socket has the mode %#o", mode)
	}
	if used, _ := c.Memory(); used == 0 {
		t.Error("it has no memory")
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if user := fmt.Sprintf("Uid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", c.User()); err != nil || !strings.Contains(string(status), user) {
		t.Errorf("%v: %s", err, status)
	}
	p.Kill()
	if _, err := p.end(); fmt.Sprint(err) != "killed by signal 9" {
		t.Error(err)
	}
}

// envoyDirectory is one that the user may read, with a directory of its own in it.
func envoyDirectory(t *testing.T, user uint32) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "xlb-process")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	own := filepath.Join(dir, "own")
	for _, do := range []func() error{
		func() error { return os.Chmod(dir, 0o755) },
		func() error { return os.WriteFile(filepath.Join(dir, "bootstrap.json"), []byte(bootstrap), 0o644) },
		func() error { return os.Mkdir(own, 0o700) },
		func() error { return os.Chown(own, int(user), int(user)) },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

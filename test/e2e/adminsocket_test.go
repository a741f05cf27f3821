// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
)

// socketBootstrap is a file whose admin API is at a Unix socket that every user may connect to.
func socketBootstrap(t *testing.T, config harness.Config, dir, socket string) (file string) {
	t.Helper()
	service, endpoint := config.Listeners[0].Address, config.Clusters[0].Endpoints[0]
	address := func(ip string, port uint16) map[string]any {
		return map[string]any{"socket_address": map[string]any{"address": ip, "port_value": port}}
	}
	text, err := json.Marshal(map[string]any{
		"admin": map[string]any{"address": map[string]any{"pipe": map[string]any{"path": socket, "mode": 0o666}}},
		"static_resources": map[string]any{
			"listeners": []any{map[string]any{"name": "web", "address": address(service.Addr().String(), service.Port()), "filter_chains": []any{map[string]any{"filters": []any{map[string]any{
				"name":         "envoy.filters.network.tcp_proxy",
				"typed_config": map[string]any{"@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", "stat_prefix": "web", "cluster": "origins"},
			}}}}}},
			"clusters": []any{map[string]any{"name": "origins", "type": "STATIC", "load_assignment": map[string]any{"cluster_name": "origins", "endpoints": []any{map[string]any{
				"lb_endpoints": []any{map[string]any{"endpoint": map[string]any{"address": address(endpoint.Addr().String(), endpoint.Port())}}},
			}}}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "xlb.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Root changes what another user may only read; a daemon that starts beside this one, as for an upgrade, takes another path, or its socket's when it has been killed.
func TestAdminAPIAtAUnixSocket(t *testing.T) {
	harness.OnlyXLB(t, "its users and its errors are XLB's")
	place, service := harness.SameHost(t), harness.Service()
	_, addresses := origins(t, place, "server")
	dir := filepath.Dir(readable(t, "empty", nil))
	first, second := filepath.Join(dir, "first.sock"), filepath.Join(dir, "second.sock")
	file := socketBootstrap(t, harness.OneCluster(service, addresses...), dir, first)
	daemon := []string{harness.Binary(t), "run", "--config", file, "--cgroup", place.Cgroup(), "--fast-path=off", "--namespaces=own", "--nri=off", "--drain-time=0s"}
	// ask runs a verb, as a user without rights or as root.
	ask := func(asNobody bool, path string, args ...string) (code int, stdout, stderr string) {
		t.Helper()
		argv := append(append([]string{harness.Binary(t)}, args...), "--admin", "unix:"+path)
		var process *harness.Process
		if asNobody {
			process = runAsNobody(t, place, argv)
		} else {
			process = place.Run(t, argv...)
		}
		stdout, code = process.Printed(t, commandPatience)
		return code, stdout, process.Stderr()
	}
	serve := func(path string, argv ...string) *harness.Process {
		t.Helper()
		process := place.Run(t, append(daemon, argv...)...)
		harness.Eventually(t, commandPatience, "the admin API answers", func() bool {
			if !process.Alive() {
				t.Fatalf("the daemon has ended: %s", process.Stderr())
			}
			code, _, _ := ask(false, path, "get", "listeners")
			return code == 0
		})
		return process
	}
	requireMode := func(path string, mode fs.FileMode) {
		t.Helper()
		if info, err := os.Lstat(path); err != nil || info.Mode() != fs.ModeSocket|mode {
			t.Errorf("%s: got %v, %v, want a socket with mode %o", path, info, err, mode)
		}
	}
	requireNone := func(path string) {
		t.Helper()
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}

	old := serve(first)
	requireMode(first, 0o666)
	if code, stdout, stderr := ask(true, first, "get", "listeners"); code != 0 || !strings.Contains(stdout, service.String()) {
		t.Errorf("another user reads: code %d, %s%s", code, stdout, stderr)
	}
	if code, _, stderr := ask(true, first, "log-level", "debug"); code == 0 || !strings.Contains(stderr, "403") || !strings.Contains(stderr, "user 65534: over this socket root and the daemon's own user (0) alone change something") {
		t.Errorf("another user changes the level of the log: code %d, %s", code, stderr)
	}
	if code, stdout, stderr := ask(false, first, "log-level"); code != 0 || stdout != "info\n" {
		t.Errorf("the level of the log behind that: code %d, %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := ask(false, first, "log-level", "debug"); code != 0 || stdout != "debug\n" {
		t.Errorf("root changes the level of the log: code %d, %s%s", code, stdout, stderr)
	}

	beside := place.Run(t, daemon...)
	if code := beside.Wait(t, commandPatience); code != 2 {
		t.Errorf("a daemon at the same socket: exit code %d, want 2", code)
	}
	requireMessage(t, beside.Stderr(), 1, []string{"admin address unix:" + first + ": a process listens there"})
	next := serve(second, "--admin", "unix:"+second)
	requireMode(second, 0o600)
	if code, _, stderr := ask(true, second, "get", "listeners"); code != 2 || !strings.Contains(stderr, "permission denied; ask as root") {
		t.Errorf("another user reads where the mode does not let him: code %d, %s", code, stderr)
	}
	old.Signal(t, syscall.SIGTERM)
	if code := old.Wait(t, commandPatience); code != 0 {
		t.Errorf("the old daemon: exit code %d: %s", code, old.Stderr())
	}
	requireNone(first)

	next.Kill(t)
	requireMode(second, 0o600)
	if code, _, stderr := ask(false, second, "get", "listeners"); code != 2 || !strings.Contains(stderr, "no process listens: the daemon that made the socket has ended") {
		t.Errorf("behind a kill: code %d, %s", code, stderr)
	}
	again := serve(second, "--admin", "unix:"+second)
	again.Signal(t, syscall.SIGTERM)
	if code := again.Wait(t, commandPatience); code != 0 {
		t.Errorf("the last daemon: exit code %d: %s", code, again.Stderr())
	}
	requireNone(second)
}

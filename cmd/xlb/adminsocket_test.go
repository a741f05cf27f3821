// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/xlb-project/xlb/internal/admin"
)

// adminSocket serves a daemon's admin API at a Unix socket.
func adminSocket(t *testing.T) (address string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := admin.Listen(t.Context(), admin.UnixScheme+path)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	handler := admin.NewHandler(daemon{new(slog.LevelVar), new(atomic.Bool)}, http.NotFoundHandler())
	go func() { ended <- admin.Serve(t.Context(), l, nil, handler, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return admin.UnixScheme + path
}

// Each verb that asks a daemon does so by a Unix socket as by TCP.
func TestVerbsAskAUnixSocket(t *testing.T) {
	overTCP, socket, file := adminAPI(t), adminSocket(t), named(t, "web")
	for _, args := range [][]string{
		{"get", "pools"}, {"get", "workloads", "--output", "json"}, {"log-level", "debug"}, {"log-level"}, {"release", file}, {"join", file},
		{"explain", "GET", "http://127.80.0.1:8080/cart", "--draw", "57"},
	} {
		wantCode, want, _ := call(t, append(args, "--admin", overTCP)...)
		code, stdout, stderr := call(t, append(args, "--admin", socket)...)
		if code != wantCode || stdout != want || stdout == "" {
			t.Errorf("%q: got code %d, stdout %q, stderr %q, want %d and %q", args, code, stdout, stderr, wantCode, want)
		}
	}
	if _, stdout, _ := call(t, "check", "--admin", socket); !strings.Contains(stdout, "running daemon") || strings.Contains(stdout, "name the admin address") {
		t.Errorf("check: got %s", stdout)
	}
}

func TestUnixSocketThatCannotBeAskedHasARemedy(t *testing.T) {
	dir := t.TempDir()
	stale, file := filepath.Join(dir, "stale"), filepath.Join(dir, "file")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, path, want string }{
		{"no file", dir + "/missing", "unix:" + dir + "/missing: there is no such file; start \"xlb run --admin unix:" + dir + "/missing\", or name"},
		{"no socket", file, "the file is no socket; name the admin address"},
		{"no listener", stale, "no process listens: the daemon that made the socket has ended; start it again"},
		{"an abstract socket", "@xlb", "an abstract socket has no mode"},
		{"a relative path", "admin.sock", `"admin.sock" is no absolute path`},
		{"a long path", "/" + strings.Repeat("a", 107), "108 bytes, and the path of a Unix socket has at most 107"},
	} {
		code, stdout, stderr := call(t, "get", "pools", "--admin", "unix:"+tt.path)
		if code != exitRefused || stdout != "" || !strings.Contains(stderr, "admin address unix:"+tt.path) || !strings.Contains(stderr, tt.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: got code %d, stdout %q, stderr %q, want %q", tt.name, code, stdout, stderr, tt.want)
		}
	}
}

// The kernel's answer to a user whom the socket's mode does not let in.
func TestUnixSocketThatMayNotBeAskedSaysWhoMay(t *testing.T) {
	const address = "unix:/run/xlb/admin.sock"
	why := unreachable(address, &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)})
	if why == nil || !strings.Contains(why.Error(), address+": permission denied; ask as root or the daemon's user, or have admin.address.pipe.mode") {
		t.Errorf("got %v", why)
	}
}

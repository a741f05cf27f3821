// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/test/await"
)

const stranger = 65533

// serveUnix serves a handler on a Unix socket until the test ends.
func serveUnix(t *testing.T, handler http.Handler, mode fs.FileMode) (path string) {
	t.Helper()
	path = socketPath(t)
	l := takeSocket(t, path, mode)
	ended := make(chan error, 1)
	go func() { ended <- Serve(t.Context(), l, nil, handler, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return path
}

// dialAs connects as a user.
func dialAs(uid int, path string) (conn net.Conn, err error) {
	onThreadToEnd(func() {
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); e != 0 {
			err = e
			return
		}
		conn, err = net.Dial("unix", path)
	})
	return conn, err
}

// onThreadToEnd runs f on a thread that ends with it, and so is not the process's first: that one stays, and what it has become would be the process's.
func onThreadToEnd(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			onThreadToEnd(f)
			return
		}
		f()
	}()
	<-done
}

// askAs asks as a user on a connection of its own.
func askAs(t *testing.T, transport *http.Transport, uid int, path, method, target string) (status int, body string) {
	t.Helper()
	transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return dialAs(uid, path) }
	defer transport.CloseIdleConnections()
	// No name that is allowed over TCP.
	request, err := http.NewRequest(method, "http://evil.example"+target, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: transport, Timeout: await.Patience}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func TestOthersThanRootReadAndChangeNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("to be several users needs root")
	}
	s := &state{}
	path := serveUnix(t, NewHandler(s, http.NotFoundHandler()), 0o666)
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
		for _, tt := range []struct {
			method, target string
			stranger, root int
		}{
			{"GET", "/ready", 200, 200},
			{"GET", "/config_dump", 200, 200},
			{"GET", WorkloadsPath, 200, 200},
			{"POST", LogPath, 200, 200},
			{"POST", LogPath + "?level=debug", 403, 200},
			{"POST", LogPath + "?format=json&level=info", 403, 200},
			{"POST", ReleaseWorkloadPath + "?netns=4026532301", 403, 200},
			{"POST", "/xlb/workloads/%72elease?netns=4026532301", 403, 200},
			{"POST", JoinWorkloadPath + "?netns=4026532301", 403, 200},
			{"POST", JoinWorkloadPath, 403, 400},
			{"GET", JoinWorkloadPath + "?netns=4026532301", 405, 405},
		} {
			transport := func() *http.Transport {
				if protocol == "HTTP/2" {
					return overHTTP2(t)
				}
				return &http.Transport{}
			}
			s.level, s.changed = slog.LevelWarn, nil
			status, body := askAs(t, transport(), stranger, path, tt.method, tt.target)
			if status != tt.stranger || status == 403 && !strings.Contains(body, "user 65533: over this socket root and the daemon's own user (0) alone change something") {
				t.Errorf("%s, %s %s of another user: got %d %s, want %d", protocol, tt.method, tt.target, status, body, tt.stranger)
			}
			if s.level != slog.LevelWarn || len(s.changed) > 0 {
				t.Errorf("%s, %s %s of another user: has changed something: level %s, %q", protocol, tt.method, tt.target, s.level, s.changed)
			}
			if status, body := askAs(t, transport(), 0, path, tt.method, tt.target); status != tt.root {
				t.Errorf("%s, %s %s of root: got %d %s, want %d", protocol, tt.method, tt.target, status, body, tt.root)
			}
		}
	}
}

func TestModeOfTheSocketSaysWhoMayConnect(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("to be several users needs root")
	}
	path := serveUnix(t, http.NotFoundHandler(), 0)
	if _, err := dialAs(stranger, path); !errors.Is(err, unix.EACCES) {
		t.Errorf("another user: got %v, want %v", err, unix.EACCES)
	}
	if conn, err := dialAs(0, path); err != nil {
		t.Errorf("root: %v", err)
	} else {
		conn.Close()
	}
}

func TestWhoMayChange(t *testing.T) {
	for _, tt := range []struct {
		name string
		peer peer
		own  int
		want bool
	}{
		{"root, of root's daemon", peer{0, true}, 0, true},
		{"root, of a user's daemon", peer{0, true}, 1000, true},
		{"the daemon's user", peer{1000, true}, 1000, true},
		{"another user", peer{1001, true}, 1000, false},
		{"another user, of root's daemon", peer{1001, true}, 0, false},
		{"not known, of root's daemon", peer{}, 0, false},
		{"not known", peer{}, 1000, false},
		{"without a number here, where the daemon is that too", peer{overflowUID, true}, overflowUID, false},
	} {
		if got := tt.peer.mayChange(tt.own); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A page that changes something is refused to those who may read alone: Changes knows each.
func TestChangesKnowsEachPageThatChangesSomething(t *testing.T) {
	for _, p := range (&api{source: &state{}, workloads: newPress(target)}).changes() {
		if r := httptest.NewRequest(http.MethodPost, p.path+"?level=debug&netns=7", nil); !Changes(r) {
			t.Errorf("Changes does not know %s", p.path)
		}
	}
}

// The bound of connections holds here as over TCP.
func TestSilentConnectionsOfTheUnixSocketGiveWay(t *testing.T) {
	path := serveUnix(t, http.NotFoundHandler(), 0)
	for range limits.Admin.Connections + 1 {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	client := http.Client{Timeout: await.Patience, Transport: &http.Transport{
		DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", path) },
	}}
	response, err := client.Get("http://localhost/")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
}

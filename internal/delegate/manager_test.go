// SPDX-License-Identifier: Apache-2.0

package delegate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// bootstrap is one by which a fake Envoy does something.
func bootstrap(does string) []byte {
	return fmt.Appendf(nil, `
node: {id: %s, cluster: test}
static_resources:
  listeners:
  - name: web
    address: {socket_address: {address: 127.80.0.1, port_value: 80}}
`, does)
}

// newManager makes one whose Envoy is this program.
func newManager(t *testing.T, change ...func(*Options)) *Manager {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Program: own, Drain: time.Minute, Logger: slog.New(slog.DiscardHandler), Spawn: func(f func()) { go f() }}
	for _, f := range change {
		f(&o)
	}
	m, err := New(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closes(t, m) })
	return m
}

func closes(t *testing.T, m *Manager) {
	t.Helper()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(m.directory.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory %s: %v, wants it removed", m.directory.path, err)
	}
	if _, err := os.Stat(m.confinement.Cgroup()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("cgroup %s: %v, wants it removed", m.confinement.Cgroup(), err)
	}
}

func (m *Manager) applies(does string) { m.Apply(bootstrap(does), "envoy.yaml") }

// awaits waits until a status is as it is to be.
func awaits(t *testing.T, m *Manager, what string, is func(s Status) bool) Status {
	t.Helper()
	var s Status
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if s = m.Status(); is(s) {
			return s
		}
	}
	t.Fatalf("status %+v, wants: %s", s, what)
	return s
}

func awaitsReady(t *testing.T, m *Manager) Status {
	t.Helper()
	return awaits(t, m, "ready", func(s Status) bool { return s.State == Ready && s.Why == "" })
}

func runs(pid int) bool { return syscall.Kill(pid, 0) == nil }

func awaitsEnd(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); runs(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d runs", pid)
		}
	}
}

func TestADelegateListensAtSocketsOfItsOwn(t *testing.T) {
	m := newManager(t)
	if s := m.Status(); s.State != Starting || s.Version != "1.40.0" || s.User == 0 {
		t.Errorf("status before a configuration: %+v", s)
	}
	m.applies(serves)
	s := awaitsReady(t, m)
	if len(s.Listeners) != 1 || s.Listeners[0].Name != "web" || s.Starts != 1 || s.Ends != 0 || s.Since.IsZero() {
		t.Fatalf("status: %+v", s)
	}
	conn, err := net.Dial("unix", s.Listeners[0].Socket)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestOthersMayNotEnterTheDirectoryOfADelegate(t *testing.T) {
	m := newManager(t)
	m.applies(serves)
	s := awaitsReady(t, m)
	for path := filepath.Dir(s.Listeners[0].Socket); path != runDirectory; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o7 != 0 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		if of := info.Sys().(*syscall.Stat_t); filepath.Base(path) != "own" && of.Uid != 0 {
			t.Errorf("%s belongs to user %d", path, of.Uid)
		}
	}
	info, err := os.Stat(filepath.Join(filepath.Dir(s.Listeners[0].Socket), "..", "bootstrap.json"))
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("bootstrap: %v, %v", info, err)
	}
}

func TestAnEqualConfigurationStartsNoProcess(t *testing.T) {
	m := newManager(t)
	m.applies(serves)
	before := awaitsReady(t, m)
	m.applies(serves)
	m.applies(serves + "2")
	if after := awaits(t, m, "another process", func(s Status) bool { return s.PID != before.PID }); after.Starts != 2 {
		t.Errorf("%d processes started, wants 2", after.Starts)
	}
	awaitsEnd(t, before.PID)
}

func TestAConfigurationThatEnvoyRefusesChangesNothing(t *testing.T) {
	m := newManager(t)
	m.applies(serves)
	before := awaitsReady(t, m)
	m.applies(refuses)
	after := awaits(t, m, "why", func(s Status) bool { return strings.Contains(s.Why, "the words of Envoy") })
	if after.PID != before.PID || after.State != Ready || !runs(before.PID) {
		t.Errorf("status after a refused configuration: %+v", after)
	}
	m.applies(serves)
	if s := awaitsReady(t, m); s.PID != before.PID {
		t.Errorf("process %d serves what %d served", s.PID, before.PID)
	}
}

func TestARefusedFirstConfigurationIsFollowedByAnother(t *testing.T) {
	m := newManager(t)
	m.applies(refuses)
	if s := awaits(t, m, "refused", func(s Status) bool { return s.State == Refused }); !strings.Contains(s.Why, "the words of Envoy") || s.PID != 0 {
		t.Errorf("status: %+v", s)
	}
	m.applies(serves)
	awaitsReady(t, m)
}

func TestWhatADelegateCannotBeGivenIsSaid(t *testing.T) {
	m := newManager(t)
	text := []byte("dynamic_resources: {lds_config: {ads: {}}}\n")
	if err := m.Check(text, "envoy.yaml"); err == nil {
		t.Error("the check allows it")
	}
	m.Apply(text, "envoy.yaml")
	if s := awaits(t, m, "unsupported", func(s Status) bool { return s.State == Unsupported }); !strings.Contains(s.Why, "dynamic_resources") {
		t.Errorf("why: %q", s.Why)
	}
}

func TestADelegateThatEndsIsStartedAgain(t *testing.T) {
	m := newManager(t)
	m.applies(serves)
	before := awaitsReady(t, m)
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	after := awaits(t, m, "another process", func(s Status) bool { return s.State == Ready && s.PID != before.PID })
	if after.Ends != 1 || after.Starts != 2 {
		t.Errorf("status: %+v", after)
	}
}

func TestADelegateThatCrashesAtItsStartIsTriedAgain(t *testing.T) {
	m := newManager(t)
	m.applies(crashes)
	s := awaits(t, m, "a second start", func(s Status) bool { return s.State == Crashing && s.Starts > 1 })
	if !strings.Contains(s.Why, "signal 9") {
		t.Errorf("why: %q", s.Why)
	}
}

func TestADelegateThatDoesNotAnswerIsReplaced(t *testing.T) {
	m := newManager(t, func(o *Options) { o.pace = 50 * time.Millisecond })
	m.applies(silent)
	before := awaits(t, m, "ready", func(s Status) bool { return s.PID != 0 })
	awaits(t, m, "another process", func(s Status) bool { return s.Ends > 0 && s.PID != before.PID })
}

func TestAFormerDelegateLastsAsLongAsItsConnections(t *testing.T) {
	m := newManager(t)
	m.applies(serves)
	before := awaitsReady(t, m)
	busy := filepath.Join(filepath.Dir(before.Listeners[0].Socket), filepath.Base(busyFile))
	if err := os.WriteFile(busy, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m.applies(serves + "2")
	awaits(t, m, "another process", func(s Status) bool { return s.PID != before.PID })
	if !runs(before.PID) {
		t.Fatal("the former process has ended with its connections")
	}
	if err := os.Remove(busy); err != nil {
		t.Fatal(err)
	}
	awaitsEnd(t, before.PID)
}

func TestFormerDelegatesAreFew(t *testing.T) {
	m := newManager(t, func(o *Options) { o.Drain = time.Hour })
	var pids []int
	last := 0
	for i := range 2 * mostRetired {
		m.applies(serves + strconv.Itoa(i))
		s := awaits(t, m, "another process", func(s Status) bool { return s.PID != last })
		last = s.PID
		busy := filepath.Join(filepath.Dir(s.Listeners[0].Socket), filepath.Base(busyFile))
		if err := os.WriteFile(busy, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, s.PID)
	}
	run := 0
	for _, pid := range pids {
		if runs(pid) {
			run++
		}
	}
	if run > mostRetired+1 {
		t.Errorf("%d processes run, wants %d", run, mostRetired+1)
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func TestADelegateThatDoesNotEndIsKilled(t *testing.T) {
	m := newManager(t)
	m.applies(ignores)
	pid := awaitsReady(t, m).PID
	closes(t, m)
	if runs(pid) {
		t.Errorf("process %d runs", pid)
	}
}

func TestCloseWaitsForNoStart(t *testing.T) {
	m := newManager(t)
	m.applies(slow)
	awaits(t, m, "a start", func(s Status) bool { return s.Starts > 0 })
	closes(t, m)
	if s := m.Status(); s.State != Ended {
		t.Errorf("state %s after the end", s.State)
	}
}

func TestANewerConfigurationInterruptsAStart(t *testing.T) {
	m := newManager(t)
	m.applies(slow)
	awaits(t, m, "a start", func(s Status) bool { return s.Starts > 0 })
	m.applies(serves)
	awaitsReady(t, m)
}

// A process that was taken over may have a link in place of its socket.
func TestTheDaemonAsksNoSocketOfAnother(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	link := filepath.Join(t.TempDir(), "admin.sock")
	if err := os.Symlink(socket, link); err != nil {
		t.Fatal(err)
	}
	received := make(chan int, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		n, _ := conn.Read(make([]byte, 1))
		received <- n
	}()
	if err := newAdminClient(link, 1<<30).ready(); err == nil || !strings.Contains(err.Error(), "not of the delegate's") {
		t.Errorf("ready: %v", err)
	}
	if n := <-received; n != 0 {
		t.Error("a byte was sent")
	}
}

func TestAnswersOfADelegateAreBounded(t *testing.T) {
	for name, answer := range map[string]string{
		"no answer":              "",
		"a head without an end":  "HTTP/1.1 200 OK\r\n" + strings.Repeat("a: "+strings.Repeat("b", 1000)+"\r\n", 1000),
		"a redirect":             "HTTP/1.1 302 Found\r\nlocation: http://127.80.0.1/\r\ncontent-length: 0\r\n\r\n",
		"a body that is awaited": "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n",
		"no HTTP":                "hello\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "socket")
			listener, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			go func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					defer conn.Close()
					_, _ = conn.Read(make([]byte, 1024))
					_, _ = io.WriteString(conn, answer)
				}
			}()
			if err := newAdminClient(socket, uint32(os.Getuid())).ready(); err == nil {
				t.Error("it is ready")
			}
		})
	}
}

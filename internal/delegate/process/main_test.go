// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patience bounds waits for what comes at once on a machine with nothing else to do.
const patience = 2 * time.Minute

// daemonVariable names the part that this binary takes as a daemon. The programs that daemons start have no environment.
const daemonVariable = "XLB_TEST_DELEGATE_DAEMON"

// program is this binary, in a file that all may execute.
var program string

func TestMain(m *testing.M) {
	if os.Args[0] == argumentZero {
		programs[os.Args[1]](os.Args[2:])
		return
	}
	if part := os.Getenv(daemonVariable); part != "" {
		program = os.Args[0]
		os.Exit(daemons[part]())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "xlb-process")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir)
	if program, err = copyOfThis(dir); err != nil {
		fmt.Println(err)
		return 1
	}
	return m.Run()
}

// copyOfThis is in a directory that root alone may enter: a program may be there.
func copyOfThis(dir string) (string, error) {
	own, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", err
	}
	defer own.Close()
	path := filepath.Join(dir, "program")
	to, err := os.Create(path)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(to, own)
	return path, errors.Join(err, to.Close(), os.Chmod(path, 0o755))
}

var confinements atomic.Uint64

// confine makes one that ends with the test.
func confine(t *testing.T, l Limits) *Confinement {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	name := fmt.Sprintf("xlb-test-process-%d-%d", os.Getpid(), confinements.Add(1))
	c, err := Confine(name, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for _, g := range c.groups.all() {
			if _, err := os.Stat(string(g)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is left: %v", g, err)
			}
		}
	})
	return c
}

// running is a process and what it has written.
type running struct {
	*Process
	t     *testing.T
	mu    sync.Mutex
	lines []string
	more  chan struct{}
}

// start runs one of programs.
func start(t *testing.T, c *Confinement, args ...string) *running {
	t.Helper()
	return startCommand(t, c, Command{Path: program, Args: args})
}

func startCommand(t *testing.T, c *Confinement, cmd Command) *running {
	t.Helper()
	r := &running{t: t, more: make(chan struct{}, 1)}
	cmd.Output = r.add
	p, err := c.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	r.Process = p
	return r
}

func (r *running) add(line []byte) {
	r.mu.Lock()
	r.lines = append(r.lines, string(line))
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default:
	}
}

func (r *running) written() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

// awaitLines returns as soon as that many lines have the text.
func (r *running) awaitLines(text string, n int) {
	r.t.Helper()
	late := time.After(patience)
	for {
		found := 0
		for _, line := range r.written() {
			if strings.Contains(line, text) {
				found++
			}
		}
		if found >= n {
			return
		}
		select {
		case <-r.more:
		case <-r.Done():
			r.t.Fatalf("ended (%v) before %q was written: %q", r.Err(), text, r.written())
		case <-late:
			r.t.Fatalf("%q is not written: %q", text, r.written())
		}
	}
}

// end waits for the end, and returns what was written and how it ended.
func (r *running) end() ([]string, error) {
	r.t.Helper()
	select {
	case <-r.Done():
	case <-time.After(patience):
		r.t.Fatalf("process %d does not end: %q", r.PID(), r.written())
	}
	return r.written(), r.Err()
}

// await waits for a condition.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for late := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%s: not so after %v", what, patience)
		}
	}
}

// hasEnded reports a process that is not there any more, or that waits for its parent alone.
func hasEnded(pid string) bool {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	stat := string(text)
	return err != nil || strings.HasPrefix(stat[strings.LastIndexByte(stat, ')')+1:], " Z")
}

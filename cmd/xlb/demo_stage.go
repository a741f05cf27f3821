// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"text/template"
	"time"

	"github.com/xlb-project/xlb/internal/check"
)

// selfPath starts this very binary, wherever it lies and even if it was replaced.
const selfPath = "/proc/self/exe"

// Patience with processes that are to end, and the time between two looks.
const (
	endPatience  = 15 * time.Second
	killPatience = 5 * time.Second
	lookEvery    = 20 * time.Millisecond
)

//go:embed templates
var templates embed.FS

func writeTemplate(file, name string, data any) error {
	t, err := template.ParseFS(templates, "templates/"+name)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	var text bytes.Buffer
	if err := t.Execute(&text, data); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	return nil
}

// stage owns everything outside this process that a demonstration makes: a cgroup, a
// directory, and processes.
type stage struct {
	// cgroup is the directory of the cgroup, dir that of files.
	cgroup string
	dir    string

	cgroupDir *os.File
	children  []*child
}

func newStage() (*stage, error) {
	mount, err := check.CgroupMount()
	if err != nil {
		return nil, refused(fmt.Errorf("demo: %w", err))
	}
	s := &stage{cgroup: filepath.Join(mount, fmt.Sprintf("xlb-demo-%d", os.Getpid()))}
	if err := os.Mkdir(s.cgroup, 0o755); err != nil {
		return nil, refused(fmt.Errorf("demo: make a cgroup: %w; run it as root", err))
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("demo: %w", err), s.close())
	}
	return s, nil
}

func (s *stage) open() (err error) {
	if s.cgroupDir, err = os.Open(s.cgroup); err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "xlb-demo-"); err != nil {
		return err
	}
	// nginx gives up root, and still reads its directory.
	return os.Chmod(s.dir, 0o755)
}

func (s *stage) subdir(name string) (string, error) {
	dir := filepath.Join(s.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("demo: %w", err)
	}
	return dir, nil
}

// close ends the processes, the last first, and removes cgroup and directory.
func (s *stage) close() error {
	var errs []error
	for i := len(s.children) - 1; i >= 0; i-- {
		errs = append(errs, s.children[i].end())
	}
	if s.cgroupDir != nil {
		s.cgroupDir.Close()
	}
	errs = append(errs, removeCgroup(s.cgroup))
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// removeCgroup kills what is left in a cgroup and removes it. A killed process leaves
// it a moment later.
func removeCgroup(path string) error {
	// Kernels before 5.14 have no cgroup.kill; the children have been ended already.
	if err := os.WriteFile(filepath.Join(path, "cgroup.kill"), []byte("1"), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("demo: end processes in %s: %w", path, err)
	}
	var err error
	if !poll(context.Background(), killPatience, func() bool {
		err = syscall.Rmdir(path)
		return err == nil || errors.Is(err, fs.ErrNotExist)
	}) {
		return fmt.Errorf("demo: remove cgroup %s: %w", path, err)
	}
	return nil
}

// place says whether a process belongs to the balanced cgroup.
type place bool

const (
	inside  place = true
	outside place = false
)

// command prepares a process. It is in a group of its own: an interrupt from the
// terminal goes to us alone, and we end the rest in order. Should we be killed, it is
// told to end.
func (s *stage) command(where place, path string, args ...string) *exec.Cmd {
	c := exec.Command(path, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if where == inside {
		c.SysProcAttr.UseCgroupFD = true
		c.SysProcAttr.CgroupFD = int(s.cgroupDir.Fd())
	}
	return c
}

// child is a server that was started.
type child struct {
	name   string
	cmd    *exec.Cmd
	stderr *tail
	// done is closed when the process has ended; err is set before.
	done chan struct{}
	err  error
}

// start starts a server; close ends it.
func (s *stage) start(where place, name, path string, args ...string) (*child, error) {
	c := &child{name: name, cmd: s.command(where, path, args...), stderr: &tail{}, done: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = c.stderr, c.stderr
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("demo: start %s: %w", name, err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	s.children = append(s.children, c)
	return c, nil
}

// hasEnded reports whether the process has ended.
func (c *child) hasEnded() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// await waits until the server is what it should be.
func (c *child) await(ctx context.Context, what string, is func() bool) error {
	if poll(ctx, demoPatience, func() bool { return c.hasEnded() || is() }) && !c.hasEnded() {
		return nil
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case c.hasEnded():
		return c.failure()
	default:
		return fmt.Errorf("demo: %s: not so after %v: %s", c.name, demoPatience, what)
	}
}

// failure says how the process ended, with its last words and its exit code.
func (c *child) failure() error {
	err := fmt.Errorf("demo: %s ended: %v", c.name, c.cmd.ProcessState)
	for line := range strings.Lines(c.stderr.String()) {
		// An xlb says its own name, and so do we.
		err = fmt.Errorf("%w\n%s", err, strings.TrimSpace(strings.TrimPrefix(line, "xlb: ")))
	}
	if c.cmd.ProcessState.ExitCode() == exitRefused {
		return refused(err)
	}
	return err
}

// end asks the process to end, and makes it.
func (c *child) end() error {
	if c.hasEnded() {
		return nil
	}
	// It may end between the look and the signal.
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
		return nil
	case <-time.After(endPatience):
	}
	_ = c.cmd.Process.Kill()
	<-c.done
	return fmt.Errorf("demo: %s did not end within %v and was killed\n%s", c.name, endPatience, c.stderr)
}

// tail keeps the end of what a process says.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const maxTail = 4096

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if extra := len(t.text) - maxTail; extra > 0 {
		t.text = append([]byte(nil), t.text[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// poll looks until is is true, for at most the time given or until ctx ends.
func poll(ctx context.Context, patience time.Duration, is func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for !is() {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}

// freeAddress is a loopback address that was free a moment ago.
func freeAddress() (netip.AddrPort, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("demo: find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort(), nil
}

func accepts(ctx context.Context, a netip.AddrPort) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", a.String())
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

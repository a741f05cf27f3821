// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netns"
)

const (
	// stopPatience is what a process has after SIGTERM before SIGKILL: a client first gives up a connection that hangs, after 30 s.
	stopPatience = time.Minute
	// logTail is how much of a process's output an error quotes, in bytes.
	logTail = 600
)

// Command describes a process of the lab.
type Command struct {
	// Name is how messages call it.
	Name string
	Path string
	Args []string
	// Env is added to the environment.
	Env []string
	// Role decides the cgroup, Host the network namespace.
	Role Role
	Host Host
}

// Process is a running process of the lab.
type Process struct {
	name string
	cmd  *exec.Cmd
	// out is the standard output, log the standard error; both are complete
	// once done is closed.
	out, log *capture
	done     chan struct{}
	err      error
}

// capture is a buffer that can be read while the process still writes.
type capture struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.Write(p)
}

func (c *capture) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.String()
}

// Start starts the command inside its cgroup and network namespace, from its
// first instruction on.
func (l *Lab) Start(c Command) (*Process, error) {
	return Launch(l.Namespace(c.Host), l.Cgroup(c.Role), c)
}

// Launch starts the command inside a namespace and a cgroup of another topology; the command's role and host mean nothing there.
func Launch(ns netns.NsHandle, cgroup string, c Command) (*Process, error) {
	dir, err := os.Open(cgroup)
	if err != nil {
		return nil, fmt.Errorf("open cgroup of %s: %w", c.Name, err)
	}
	defer dir.Close()

	p := &Process{name: c.Name, out: &capture{}, log: &capture{}, done: make(chan struct{})}
	p.cmd = exec.Command(c.Path, c.Args...)
	p.cmd.Env = append(os.Environ(), c.Env...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.log
	// A child that keeps the pipes open must not keep Wait from returning.
	p.cmd.WaitDelay = time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{
		UseCgroupFD: true,
		CgroupFD:    int(dir.Fd()),
		// Ctrl-C at the terminal reaches the benchmark alone, which then stops
		// its children in order.
		Setpgid:   true,
		Pdeathsig: syscall.SIGTERM,
	}
	if err := Within(ns, p.cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Wait waits for the end of the process and returns its standard output. When
// ctx ends first, the process is stopped.
func (p *Process) Wait(ctx context.Context) (string, error) {
	select {
	case <-p.done:
	case <-ctx.Done():
		return "", errors.Join(ctx.Err(), p.Stop())
	}
	if p.err != nil {
		return "", fmt.Errorf("%s: %w%s", p.name, p.err, p.Quote())
	}
	return p.out.String(), nil
}

// Output is the standard output so far.
func (p *Process) Output() string { return p.out.String() }

// PID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process as kill -9 does and waits until it is gone. One that is gone already is no error.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.done
	return nil
}

// Exited reports how the process ended, or nil while it runs.
func (p *Process) Exited() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended (%v)%s", p.name, p.cmd.ProcessState, p.Quote())
	default:
		return nil
	}
}

// Quote returns the end of what the process wrote to its standard error, for
// use at the end of a message.
func (p *Process) Quote() string {
	text := strings.TrimSpace(p.log.String())
	if text == "" {
		return ""
	}
	if len(text) > logTail {
		text = "..." + text[len(text)-logTail:]
	}
	return fmt.Sprintf("; %s wrote: %s", p.name, text)
}

// Stop asks the process to end, and ends its group if it does not. A process
// that is gone already is no error.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	timer := time.NewTimer(stopPatience)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	}
	// The group's id is the leader's: Setpgid made it so.
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.done
	return fmt.Errorf("%s did not end within %s of SIGTERM and was killed%s", p.name, stopPatience, p.Quote())
}

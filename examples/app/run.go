// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/xlb-project/xlb/bench/lab"
)

const (
	readyPatience = 60 * time.Second
	readyPoll     = 50 * time.Millisecond
	// stopPatience is what a process has after SIGTERM before SIGKILL.
	stopPatience = 10 * time.Second
	// maxLog is how much of a process's output is kept, in bytes.
	maxLog = 4096
)

// Cgroup is a cgroup v2 directory for the processes of an application and their users.
type Cgroup struct{ Dir string }

func cgroupDir(name string) (string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer f.Close()
	mount, err := lab.CgroupMount(f)
	return filepath.Join(mount, name), err
}

// Join moves this process into the cgroup of a name.
func Join(name string) error {
	dir, err := cgroupDir(name)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0)
}

// NewCgroup makes the directory, after it has ended what an earlier run left in it.
func NewCgroup(name string) (*Cgroup, error) {
	dir, err := cgroupDir(name)
	if err != nil {
		return nil, err
	}
	c := &Cgroup{Dir: dir}
	if err := c.Close(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("create cgroup (run as root): %w", err)
	}
	return c, nil
}

// Close ends what is left in the cgroup and removes it.
func (c *Cgroup) Close() error {
	if err := os.WriteFile(filepath.Join(c.Dir, "cgroup.kill"), []byte("1"), 0); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	return lab.Poll(ctx, readyPoll, func() error {
		if err := os.Remove(c.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove cgroup: %w", err)
		}
		return nil
	})
}

// Running is a process that was started.
type Running struct {
	Process
	cmd  *exec.Cmd
	log  *tail
	done chan struct{}
}

// tail keeps the end of what is written.
type tail struct {
	mu  sync.Mutex
	buf []byte // guarded by mu
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	t.buf = t.buf[max(0, len(t.buf)-maxLog):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}

// Start starts a process, in a cgroup unless that is nil.
func Start(p Process, cgroup *Cgroup) (*Running, error) {
	r := &Running{Process: p, cmd: exec.Command(p.Path, p.Args...), log: &tail{}, done: make(chan struct{})}
	r.cmd.Env = p.Env
	r.cmd.Stdout, r.cmd.Stderr = r.log, r.log
	r.cmd.WaitDelay = time.Second
	// Ctrl-C at the terminal reaches the starter alone, which stops its children in order.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if cgroup != nil {
		dir, err := os.Open(cgroup.Dir)
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		r.cmd.SysProcAttr.UseCgroupFD, r.cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	}
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	go func() {
		// How it ended is in the process's state.
		_ = r.cmd.Wait()
		close(r.done)
	}()
	return r, nil
}

// Pid is its process id.
func (r *Running) Pid() int { return r.cmd.Process.Pid }

// exited tells how the process ended; nil while it runs.
func (r *Running) exited() error {
	select {
	case <-r.done:
		return fmt.Errorf("%s ended (%v): %s", r.Name, r.cmd.ProcessState, r.log)
	default:
		return nil
	}
}

// Await waits until the process is ready to serve.
func (r *Running) Await(ctx context.Context) error {
	return r.await(ctx, func() error { return ready(ctx, r.Process) })
}

// AwaitURL waits until the process answers 200 to a URL.
func (r *Running) AwaitURL(ctx context.Context, url string) error {
	return r.await(ctx, func() error { return get(ctx, url) })
}

func (r *Running) await(ctx context.Context, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	err := lab.Poll(ctx, readyPoll, func() error {
		if err := r.exited(); err != nil {
			cancel()
			return err
		}
		return ready()
	})
	if err != nil {
		return fmt.Errorf("%s is not ready: %w: %s", r.Name, err, r.log)
	}
	return nil
}

// ready asks a process once.
func ready(ctx context.Context, p Process) error {
	if p.HTTP {
		return get(ctx, "http://"+p.Listen.String()+"/health")
	}
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", p.Listen.String())
	if err == nil {
		conn.Close()
	}
	return err
}

// get asks for a URL; every answer but 200 is an error. It uses no proxy.
func get(ctx context.Context, url string) error {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}

// Stop asks the process to end, and ends it if it does not. One that is gone already is no error.
func (r *Running) Stop() error {
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", r.Name, err)
	}
	select {
	case <-r.done:
		return nil
	case <-time.After(stopPatience):
	}
	// The group's id is the leader's: Setpgid made it so.
	err := syscall.Kill(-r.Pid(), syscall.SIGKILL)
	<-r.done
	return errors.Join(err, fmt.Errorf("%s did not end within %s and was killed: %s", r.Name, stopPatience, strings.TrimSpace(r.log.String())))
}

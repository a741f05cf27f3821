// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// argumentZero is what the program is called by: its path, as it is executed, says nothing.
const argumentZero = "envoy"

// executeWithin bounds the time between fork and execution. A process of the same user can stop the new one before it executes, and the daemon waits for it.
const executeWithin = 10 * time.Second

// launch is what a program is started with.
type launch struct {
	program *os.File
	args    []string
	dir     string
	output  *os.File
	user    uint32
	groups  groups
}

// start executes the program. It changes the calling thread for good, and the program dies with that: the caller is on onOwnThread, and stays.
func (l *launch) start() (*os.Process, error) {
	if err := restrictThread(); err != nil {
		return nil, err
	}
	if err := keepFiles(); err != nil {
		return nil, err
	}
	// A thread can be moved in version 1, and what it forks begins there. In version 2 fork itself does it.
	for _, g := range l.groups.legacy {
		if err := g.set("tasks", "0"); err != nil {
			return nil, fmt.Errorf("join a cgroup: %w", err)
		}
	}
	input, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer input.Close()
	directory, err := os.Open(string(l.groups.unified))
	if err != nil {
		return nil, err
	}
	defer directory.Close()
	late := time.AfterFunc(executeWithin, func() { _ = l.groups.unified.kill() })
	defer late.Stop()
	return withDaemonsState(func() (*os.Process, error) { return l.execute(input, directory) })
}

// keepFiles has no program inherit what this process has inherited itself, as sockets of a service manager. What Go opens is not inherited in any case.
func keepFiles() error {
	const first, last = 3, math.MaxUint32
	if err := unix.CloseRange(first, last, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	return nil
}

func (l *launch) execute(input, directory *os.File) (*os.Process, error) {
	process, err := os.StartProcess(pathOf(l.program), append([]string{argumentZero}, l.args...), &os.ProcAttr{
		Dir:   l.dir,
		Env:   []string{}, // nil would be the daemon's
		Files: []*os.File{input, l.output, l.output},
		Sys: &syscall.SysProcAttr{
			Credential:  &syscall.Credential{Uid: l.user, Gid: l.user}, // without groups: setgroups(0)
			Setsid:      true,
			Pdeathsig:   syscall.SIGKILL,
			UseCgroupFD: true,
			CgroupFD:    int(directory.Fd()),
		},
	})
	if err != nil {
		return nil, startReason(err, l.dir)
	}
	return process, nil
}

// startReason is what an error of executing a program means.
func startReason(err error, dir string) error {
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err // the path is that of pathOf
	}
	if hint := startHint(err, dir); hint != "" {
		return fmt.Errorf("%w (%s)", err, hint)
	}
	return err
}

func startHint(err error, dir string) string {
	switch {
	case errors.Is(err, unix.EACCES):
		return fmt.Sprintf("its file system is mounted with noexec, a security module forbids it, or its user may not enter %s", dir)
	case errors.Is(err, unix.ENOENT):
		return fmt.Sprintf("the loader that it names is not installed, or %s does not exist", dir)
	case errors.Is(err, unix.ENOEXEC):
		return "it is not a program of this machine"
	case errors.Is(err, unix.EPERM):
		return "CAP_SETUID and CAP_SETGID are needed"
	case errors.Is(err, unix.EINVAL):
		return "the user namespace of this process may lack its user"
	}
	return ""
}

// starting is held while state of the daemon is another one for a start.
var starting sync.Mutex

// withDaemonsState calls start where a program begins with what belongs to it, not to the daemon, and leaves the daemon as it was. Both are the process's, not
// the thread's, and to set them for another user's process takes capabilities: so the daemon has them itself while it forks.
//
//   - RLIMIT_CORE: the program makes no core dumps.
//   - oom_score_adj: when memory runs out the kernel may kill the program, where it shall spare the daemon. With -1000 it could not be bounded at all.
//
// And until the child has executed, it shares the daemon's memory, for which a change of its user means that neither of the two may be dumped (prctl(2),
// PR_SET_DUMPABLE); the daemon may again, once that memory is its own.
func withDaemonsState(start func() (*os.Process, error)) (*os.Process, error) {
	starting.Lock()
	defer starting.Unlock()
	for _, borrow := range []func() (restore func(), err error){keepDumpable, withoutCore, withoutSparing} {
		restore, err := borrow()
		if err != nil {
			return nil, err
		}
		defer restore()
	}
	return start()
}

func keepDumpable() (restore func(), err error) {
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("prctl(PR_GET_DUMPABLE): %w", err)
	}
	return func() {
		if dumpable == 1 { // the only other value that a process can set is what a fork leaves
			_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
		}
	}, nil
}

func withoutCore() (restore func(), err error) {
	var limit unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_CORE, nil, &limit); err != nil {
		return nil, fmt.Errorf("read RLIMIT_CORE: %w", err)
	}
	if err := unix.Prlimit(0, unix.RLIMIT_CORE, &unix.Rlimit{Cur: 0, Max: limit.Max}, nil); err != nil {
		return nil, fmt.Errorf("set RLIMIT_CORE: %w", err)
	}
	// Up to the hard limit, which stays, nothing is refused.
	return func() { _ = unix.Prlimit(0, unix.RLIMIT_CORE, &limit, nil) }, nil
}

// self is this process's directory in procfs, which has files as a cgroup has.
const self group = procfs + "/self"

func withoutSparing() (restore func(), err error) {
	const file = "oom_score_adj"
	adjustment := self.read(file)
	if !strings.HasPrefix(adjustment, "-") {
		return func() {}, nil
	}
	if err := self.set(file, "0"); err != nil {
		return nil, err
	}
	// Down to what a privileged process has set, which this was or had from one, nothing is refused.
	return func() { _ = self.set(file, adjustment) }, nil
}

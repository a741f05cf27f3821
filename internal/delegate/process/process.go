// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Command is a program to run.
type Command struct {
	// Path is the program's, as Find returns it. The file is a regular one that others than its owner may execute and not write to; its directory may be closed
	// to them.
	Path string
	// Args are its arguments behind the first one, which is "envoy". Its environment is empty, its input /dev/null.
	Args []string
	// Dir is its working directory, which the user of the Confinement may enter; empty: the root directory.
	Dir string
	// Output is called with each line that it writes to its standard output or error, without the newline, and of a line with the first 8 KiB. It is called from
	// one goroutine, and the line is valid during the call. While it does not return the program waits as soon as it has written as much as a pipe holds. nil:
	// the lines are dropped.
	Output func(line []byte)
}

// Process is a program that was started. It is safe for concurrent use.
type Process struct {
	pid    int
	groups groups
	memory account
	limit  uint64

	exited chan exit
	read   chan struct{}
	done   chan struct{}
	err    error // is set before done is closed
}

// exit is how the program itself ended.
type exit struct {
	state *os.ProcessState
	err   error
}

func newProcess(g groups, memory account, limit uint64) *Process {
	return &Process{groups: g, memory: memory, limit: limit, exited: make(chan exit, 1), read: make(chan struct{}), done: make(chan struct{})}
}

// PID is its number, which may be another process's after Done.
func (p *Process) PID() int { return p.pid }

// Done is closed when it has ended, its descendants have been killed, and Output has all its output. It is not closed while Output does not return. Processes
// that the kernel cannot end within ten seconds are not waited for longer.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how it ended, after Done: nil for the exit status 0, otherwise "exit status 1", "killed by signal 9", or "killed: out of memory (limit 512 MiB)".
// Before it is nil.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Kill ends it at once, with all its descendants. It does not wait for that: see Done. It may be called at any time, any number of times.
func (p *Process) Kill() {
	// After Done the cgroup has gone, and its name is not given again. Otherwise the kernel cannot refuse it.
	_ = p.groups.unified.kill()
}

// start makes the cgroups and starts the program in them; on an error nothing is left.
func (p *Process) start(program *os.File, cmd Command, user uint32) error {
	if err := p.groups.create(); err != nil {
		return err
	}
	err := p.memory.endWhole()
	if err == nil {
		err = p.startIn(program, cmd, user)
	}
	if err != nil {
		return errors.Join(err, p.groups.remove(time.Now().Add(endWithin)))
	}
	return nil
}

func (p *Process) startIn(program *os.File, cmd Command, user uint32) error {
	read, written, err := newPipe(user)
	if err != nil {
		return err
	}
	defer written.Close()
	started := make(chan error, 1)
	l := &launch{program: program, args: cmd.Args, dir: cmd.Dir, output: written, user: user, groups: p.groups}
	go onOwnThread(func() { p.run(l, started) })
	if err := <-started; err != nil {
		read.file.Close()
		return err
	}
	go p.pass(read, cmd.Output)
	go p.finish(read)
	return nil
}

// run starts the program and waits for its end, on one thread: the program dies with the thread that started it.
func (p *Process) run(l *launch, started chan<- error) {
	process, err := l.start()
	if err == nil {
		p.pid = process.Pid
	}
	started <- err
	if err != nil {
		return
	}
	state, err := process.Wait()
	p.exited <- exit{state, err}
}

// pass gives lines to output, to their end.
func (p *Process) pass(read *output, give func([]byte)) {
	defer close(p.read)
	defer read.file.Close()
	if give == nil {
		give = func([]byte) {}
	}
	eachLine(read, give)
}

// finish waits for the end of the program, ends what it has left, and closes done.
func (p *Process) finish(read *output) {
	ended := <-p.exited
	until := time.Now().Add(endWithin)
	p.Kill()
	_ = p.groups.unified.awaitEmpty(until) // Close of the Confinement says what does not end
	p.err = ended.reason(p.memory.kills() > 0, p.limit)
	read.end()
	<-p.read
	_ = p.groups.remove(until)
	close(p.done)
}

// reason is what Err says. Where the kernel has killed for want of memory, a SIGKILL is its.
func (e exit) reason(isOutOfMemory bool, limit uint64) error {
	if e.err != nil {
		return fmt.Errorf("wait for its end: %w", e.err)
	}
	status, isStatus := e.state.Sys().(syscall.WaitStatus)
	switch {
	case !isStatus:
		return errors.New(e.state.String())
	case status.Signaled() && status.Signal() == syscall.SIGKILL && isOutOfMemory:
		return fmt.Errorf("killed: out of memory (%s)", limitText(limit))
	case status.Signaled():
		return fmt.Errorf("killed by signal %d", status.Signal())
	case status.ExitStatus() != 0:
		return fmt.Errorf("exit status %d", status.ExitStatus())
	}
	return nil
}

// limitText is a limit of memory in words.
func limitText(limit uint64) string {
	const mebi = 1 << 20
	switch {
	case limit == 0:
		return "no limit but the machine's"
	case limit%mebi == 0:
		return fmt.Sprintf("limit %d MiB", limit/mebi)
	}
	return fmt.Sprintf("limit %d bytes", limit)
}

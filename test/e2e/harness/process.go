// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/programs"
)

// Process is a child of the test, alive until the test ends at the latest.
type Process struct {
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	pipe   *os.File
	out    *bufio.Reader // reads pipe
	errors *tail

	done chan struct{} // closed when the process has been waited for
	err  error         // what Wait said; valid once done is closed
}

// Run starts a command inside the place.
func (p *Place) Run(t testing.TB, argv ...string) *Process {
	t.Helper()
	return p.RunCommand(t, exec.Command(argv[0], argv[1:]...))
}

// Program starts one of package programs inside the place, with these files as descriptors from 3 on.
func (p *Place) Program(t testing.TB, name string, spec any, files ...*os.File) *Process {
	t.Helper()
	line, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env, cmd.ExtraFiles = append(os.Environ(), programs.Variable+"="+name), files
	process := p.RunCommand(t, cmd)
	process.name = name
	process.command(t, string(line))
	return process
}

// RunCommand starts a prepared command inside the place.
func (p *Place) RunCommand(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	process := &Process{name: cmd.Args[0], cmd: cmd, errors: &tail{}, done: make(chan struct{})}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	process.in, process.pipe, process.out = in, out, bufio.NewReader(out)
	cmd.Stdout, cmd.Stderr = write, process.errors
	// A grandchild that holds standard error must not hold the test.
	cmd.WaitDelay = 5 * time.Second
	err = p.start(cmd)
	write.Close()
	if err != nil {
		out.Close()
		t.Fatalf("start %s: %v", process.name, err)
	}
	go func() {
		process.err = cmd.Wait()
		close(process.done)
	}()
	t.Cleanup(func() {
		process.end(t)
		out.Close()
	})
	return process
}

// end lets the process finish, or kills it.
func (p *Process) end(t testing.TB) {
	p.in.Close()
	if p.cmd.Process.Signal(syscall.SIGTERM) == nil {
		select {
		case <-p.done:
		case <-time.After(5 * time.Second):
			_ = p.cmd.Process.Kill()
		}
	}
	<-p.done
	if t.Failed() && p.Stderr() != "" {
		t.Logf("%s (%v) wrote to standard error:\n%s", p.name, p.cmd.ProcessState, p.errors)
	}
}

// answerPatience bounds the wait for one answer of a program.
const answerPatience = 8 * time.Minute

// Next decodes the next line of the process's output.
func (p *Process) Next(t testing.TB, into any) {
	t.Helper()
	if err := p.next(answerPatience, into); err != nil {
		t.Fatal(err)
	}
}

func (p *Process) next(patience time.Duration, into any) error {
	if err := p.pipe.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("%s gave no answer: %w\n%s", p.name, err, p.errors)
	}
	if err := json.Unmarshal(line, into); err != nil {
		return fmt.Errorf("answer of %s: %w: %s", p.name, err, line)
	}
	return nil
}

// Ask sends a command and decodes the answer.
func (p *Process) Ask(t testing.TB, command string, into any) {
	t.Helper()
	p.command(t, command)
	p.Next(t, into)
}

// TryAsk is Ask for a process that may fail: then it returns why, and the
// process is of no further use.
func (p *Process) TryAsk(command string, patience time.Duration, into any) error {
	if err := p.tell(command); err != nil {
		return err
	}
	return p.next(patience, into)
}

func (p *Process) command(t testing.TB, line string) {
	t.Helper()
	if err := p.tell(line); err != nil {
		t.Fatal(err)
	}
}

func (p *Process) tell(line string) error {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		return fmt.Errorf("command %s: %w\n%s", p.name, err, p.errors)
	}
	return nil
}

// Finish ends the process's input and decodes its last answer.
func (p *Process) Finish(t testing.TB, into any) {
	t.Helper()
	p.in.Close()
	p.Next(t, into)
}

// TryFinish is Finish for a process that may fail, or not end.
func (p *Process) TryFinish(patience time.Duration, into any) error {
	p.in.Close()
	return p.next(patience, into)
}

// Output waits for the end of the process and returns what it wrote. Ending
// with another code than 0 fails the test.
func (p *Process) Output(t testing.TB, patience time.Duration) string {
	t.Helper()
	output, code := p.Printed(t, patience)
	if code != 0 {
		t.Fatalf("%s: exit code %d\n%s\n%s", p.name, code, output, p.errors)
	}
	return output
}

// Printed waits for the end of the process and returns what it wrote, and its exit code.
func (p *Process) Printed(t testing.TB, patience time.Duration) (output string, code int) {
	t.Helper()
	p.in.Close()
	read := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(p.out)
		read <- b
	}()
	code = p.Wait(t, patience)
	return string(<-read), code
}

// Wait returns the exit code; -1 means that a signal ended the process.
func (p *Process) Wait(t testing.TB, patience time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		t.Fatalf("%s still runs after %v\n%s", p.name, patience, p.errors)
		return -1
	}
}

// Signal sends a signal to a process that must be alive.
func (p *Process) Signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatalf("send %v to %s: %v\n%s", signal, p.name, err, p.errors)
	}
}

// Kill ends the process as kill -9 does and waits until it is gone.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.Signal(t, syscall.SIGKILL)
	<-p.done
}

// Alive tells whether the process runs.
func (p *Process) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Stderr is what the process has written to standard error so far, or the end
// of it.
func (p *Process) Stderr() string { return p.errors.String() }

// KeepStderr also writes all of standard error, what has been written included as far as it is kept, to w, until the
// process ends.
func (p *Process) KeepStderr(w io.Writer) { p.errors.copyTo(w) }

// PID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Sleeps reports whether the process, of one thread, waits for what comes next: state S of proc_pid_stat(5).
func (p *Process) Sleeps(t testing.TB) bool {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		t.Fatalf("state of %s: %v\n%s", p.name, err, p.errors)
	}
	// The command before it may have parentheses itself.
	_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return bytes.HasPrefix(state, []byte("S"))
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex // guards all
	kept bytes.Buffer
	copy io.Writer // nil: nobody wants it whole
}

const tailSize = 64 << 10

func (b *tail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept.Write(p)
	if b.copy != nil {
		if n, err := b.copy.Write(p); err != nil {
			return n, err
		}
	}
	if over := b.kept.Len() - tailSize; over > 0 {
		b.kept.Next(over)
	}
	return len(p), nil
}

func (b *tail) copyTo(w io.Writer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.copy = w
	// A failure shows again, and is told of, with the next write.
	_, _ = w.Write(b.kept.Bytes())
}

func (b *tail) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept.String()
}

// blink is the longest time between two looks that counts: where more has passed the machine, or the whole test, stood still, and so did
// whatever is waited for.
const blink = time.Second

// Eventually polls until done tells true, and fails the test after patience.
func Eventually(t testing.TB, patience time.Duration, what string, done func() bool) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	looked := time.Now()
	for waited := time.Duration(0); !done(); <-ticker.C {
		now := time.Now()
		waited += min(now.Sub(looked), blink)
		looked = now
		if waited > patience {
			t.Fatalf("%v passed without: %s", patience, what)
		}
	}
}

// root is the top folder of this repository, found upwards from the folder of
// the test package.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("no go.mod above the folder of the test: run it inside the repository")
	return ""
}

// Command looks a client program up, among the installed tools and on PATH. It
// skips the test where the program is missing, unless XLB_REQUIRE_CLIENTS
// demands it.
func Command(t testing.TB, name string) string {
	t.Helper()
	tool := filepath.Join(root(t), ".tools", "bin", name)
	if _, err := exec.LookPath(tool); err == nil {
		return tool
	}
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, "the program "+name, err)
	}
	return path
}

// Tool returns the path of a file or folder that scripts/install-deps has put
// into .tools/; where it is missing, it does as Command does.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(root(t), ".tools", name)
	if _, err := os.Stat(path); err != nil {
		missing(t, name, err)
	}
	return path
}

func missing(t testing.TB, what string, err error) {
	t.Helper()
	if os.Getenv("XLB_REQUIRE_CLIENTS") != "" {
		t.Fatalf("XLB_REQUIRE_CLIENTS is set: %v", err)
	}
	t.Skipf("needs %s: %v", what, err)
}

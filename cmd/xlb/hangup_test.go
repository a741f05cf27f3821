// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/hangup"
)

// hangupInit is how a line of GODEBUG=inittrace=1 begins once SIGHUP is received.
const hangupInit = "init github.com/xlb-project/xlb/internal/hangup "

// Roles that the test binary plays. Each has all packages of the command to initialise.
const (
	roleReloads = "hangup-reloads" // takes SIGHUP, says so, and ends with the next one
	roleEnds    = "hangup-ends"    // is a command with the default action
	roleEnded   = "hangup-ended"   // has taken SIGHUP, and is about to end
)

// playHangup is one of the roles. It goes on when its standard input ends.
func playHangup(role string) int {
	if role == roleEnds {
		code := execute(context.Background(), &env{stdout: io.Discard, stderr: io.Discard}, []string{"version"})
		_, _ = io.Copy(io.Discard, os.Stdin)
		return code
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	reload := hangup.Take()
	if role == roleEnded {
		hangup.End()
		// The thread gets it before the call returns: another one might when the process has ended.
		runtime.LockOSThread()
		if unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGHUP) != nil {
			return exitFailure
		}
		return exitOK
	}
	os.Stdout.WriteString("taken\n")
	<-reload
	return exitOK
}

// run is a role that is played.
type run struct {
	*exec.Cmd
	goOn   io.Closer // its standard input
	before []string  // the packages that were initialised before hangup
	stderr *bufio.Reader
	stdout *bufio.Reader
}

// traced starts a role, and returns once its package hangup is initialised.
func traced(t *testing.T, role string) *run {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The test may run below nohup.
	r := &run{Cmd: exec.CommandContext(t.Context(), "env", "--default-signal=HUP", self, role)}
	r.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	stderr, err1 := r.StderrPipe()
	stdout, err2 := r.StdoutPipe()
	stdin, err3 := r.StdinPipe()
	if err := errors.Join(err1, err2, err3, r.Start()); err != nil {
		t.Fatal(err)
	}
	r.stderr, r.stdout, r.goOn = bufio.NewReader(stderr), bufio.NewReader(stdout), stdin
	for {
		line, err := r.stderr.ReadString('\n')
		if err != nil {
			t.Fatalf("%s ended before package hangup was initialised: %v", role, err)
		}
		if strings.HasPrefix(line, hangupInit) {
			return r
		}
		r.before = append(r.before, line)
	}
}

// hangUp sends the signal. That the process has ended shows in how.
func (r *run) hangUp() { _ = r.Process.Signal(syscall.SIGHUP) }

// Nothing but what os/signal needs comes before it, and the runtime: a package that is not of the standard library, or net, or reflect, would mean that
// hangup has got an import, or a path that sorts behind.
func TestHangupIsInitialisedFirst(t *testing.T) {
	r := traced(t, roleEnds)
	r.goOn.Close()
	for _, line := range r.before {
		for _, large := range []string{
			"init github.com/xlb-project/", "init github.com/prometheus/", "init go.yaml.in/", "init google.golang.org/protobuf", "init reflect ", "init net/http ",
		} {
			if strings.HasPrefix(line, large) {
				t.Errorf("initialised before hangup: %s", line)
			}
		}
	}
	rest, err := io.ReadAll(r.stderr)
	if err != nil || !strings.Contains(string(rest), "init google.golang.org/protobuf") {
		t.Errorf("nothing large came behind hangup, %v:\n%s", err, rest)
	}
	if err := r.Wait(); err != nil {
		t.Error(err)
	}
}

// A signal that comes while packages are initialised does not end the process; one behind that is told.
func TestHangupBeforeMainIsOutlived(t *testing.T) {
	r := traced(t, roleReloads)
	go func() { _, _ = io.Copy(io.Discard, r.stderr) }()
	for range 100 {
		r.hangUp()
	}
	r.goOn.Close()
	if line, err := r.stdout.ReadString('\n'); line != "taken\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	r.hangUp()
	if err := r.Wait(); err != nil {
		t.Errorf("ended with %v, want a reload", err)
	}
}

// A SIGHUP that comes while the daemon drains does not change how it ends.
func TestHangupBehindTheEndHasNoEffect(t *testing.T) {
	r := traced(t, roleEnded)
	go func() { _, _ = io.Copy(io.Discard, r.stderr) }()
	r.goOn.Close()
	if err := r.Wait(); err != nil {
		t.Errorf("ended with %v, want its own end", err)
	}
}

// Commands that reload nothing end by SIGHUP, also by one that came before they could have been told apart.
func TestHangupEndsOtherCommands(t *testing.T) {
	r := traced(t, roleEnds)
	defer r.goOn.Close()
	go func() { _, _ = io.Copy(io.Discard, r.stderr) }()
	r.hangUp()
	var exit *exec.ExitError
	if err := r.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGHUP {
		t.Errorf("ended with %v, want SIGHUP", err)
	}
}

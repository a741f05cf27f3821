// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/privilege"
)

// daemons are the parts that this binary takes as a process that starts programs. They return an exit status.
var daemons = map[string]func() int{
	"doomed":  doomedDaemon,
	"dropped": droppedDaemon,
	"keyring": keyringDaemon,
}

// notSupported is the exit status of a daemon that cannot be had in this build.
const notSupported = 3

// daemon is this binary in a part.
func daemon(t *testing.T, part string) *exec.Cmd {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), daemonVariable+"="+part)
	cmd.Stderr = os.Stderr
	return cmd
}

// doomedDaemon says what it has started, and waits to be killed.
func doomedDaemon() int {
	name, err := Name()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	c, err := Confine(name, Limits{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	ready := make(chan struct{})
	p, err := c.Start(Command{Path: program, Args: []string{"sleep"}, Output: func([]byte) { close(ready) }})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	<-ready
	fmt.Println(p.PID(), c.Cgroup())
	sleep()
	return 0
}

// A daemon that is killed takes its program with it, and the next one removes the cgroups.
func TestProgramDiesWithItsDaemon(t *testing.T) {
	cmd := daemon(t, "doomed")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	pid, cgroup, isWhole := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	if !isWhole || hasEnded(pid) {
		t.Errorf("%q, %v", line, err)
	}
	if _, err := os.Stat(cgroup); err != nil {
		t.Error(err)
	}
	confine(t, Limits{}) // leaves it, since its daemon lives
	if _, err := os.Stat(cgroup); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	await(t, "program "+pid+" ends", func() bool { return hasEnded(pid) })
	await(t, "the next one removes "+cgroup, func() bool {
		if err := confine(t, Limits{}).Close(); err != nil {
			t.Error(err)
		}
		_, err := os.Stat(cgroup)
		return errors.Is(err, os.ErrNotExist)
	})
}

// droppedDaemon does all with the capabilities that the package asks for.
func droppedDaemon() int {
	err := privilege.Drop(1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_CHOWN)
	if errors.Is(err, unix.ENOTSUP) {
		return notSupported
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if err := useAll(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// useAll starts a program that ends, and one that is killed.
func useAll() error {
	name, err := Name()
	if err != nil {
		return err
	}
	c, err := Confine(name, Limits{CPUs: 1, Memory: 1 << 30})
	if err != nil {
		return err
	}
	ended, err := c.Start(Command{Path: program, Args: []string{"exit", "3"}})
	if err != nil {
		return errors.Join(err, c.Close())
	}
	<-ended.Done()
	ready := make(chan struct{}, kin+1)
	killed, err := c.Start(Command{Path: program, Args: []string{"family"}, Output: func([]byte) { ready <- struct{}{} }})
	if err != nil {
		return errors.Join(err, c.Close())
	}
	for range kin + 1 {
		<-ready
	}
	killed.Kill()
	<-killed.Done()
	if fmt.Sprint(ended.Err(), killed.Err()) != "exit status 3 killed by signal 9" {
		err = fmt.Errorf("ended by %w and %w", ended.Err(), killed.Err())
	}
	return errors.Join(err, c.Close())
}

func TestFewCapabilitiesSuffice(t *testing.T) {
	out, err := daemon(t, "dropped").Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == notSupported {
		t.Skip("capabilities of all threads cannot be dropped in a build with cgo")
	}
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// keyringDaemon prints its own session keyring, and that of a program.
func keyringDaemon() int {
	name, err := Name()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	c, err := Confine(name, Limits{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer c.Close()
	own, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Printf("own:\t%d\n", own)
	p, err := c.Start(Command{Path: program, Args: []string{"state"}, Output: func(line []byte) { fmt.Println(string(line)) }})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	<-p.Done()
	return 0
}

// A daemon that a login or a service manager has given a session keyring does not hand it on: root's keys would be the program's.
func TestKeyringIsNotHandedOn(t *testing.T) {
	cmd := daemon(t, "keyring")
	var out []byte
	var err error
	var given int
	done := make(chan struct{})
	go onOwnThread(func() {
		defer close(done)
		if err = leaveKeyring(); err != nil {
			return
		}
		if given, err = unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false); err == nil {
			out, err = cmd.Output()
		}
	})
	<-done
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		t.Skipf("needs keyrings: %v", err)
	}
	text := string(out)
	if err != nil || !strings.Contains(text, fmt.Sprintf("own:\t%d\n", given)) || !strings.Contains(text, "keyring:\t") {
		t.Fatalf("%v: %s", err, text)
	}
	if strings.Contains(text, fmt.Sprintf("keyring:\t%d\n", given)) {
		t.Errorf("the program has the session keyring %d of the daemon", given)
	}
}

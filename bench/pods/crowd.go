// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/test/pods"
)

// crowds are pods that stay, of several processes.
type crowds []*crowd

// podsEach bounds the pods of one process: each has some forty descriptors.
const podsEach = 250

// startCrowds makes n pods.
func startCrowds(l *lab.Lab, n int) (all crowds, err error) {
	for first := 0; first < n; first += podsEach {
		c, err := startCrowd(l, first/podsEach, min(podsEach, n-first))
		if err != nil {
			return nil, errors.Join(err, all.end())
		}
		all = append(all, c)
	}
	return all, nil
}

func (all crowds) do(what string) error {
	for _, c := range all {
		if err := c.do(what); err != nil {
			return err
		}
	}
	return nil
}

func (all crowds) end() (err error) {
	for _, c := range all {
		err = errors.Join(err, c.end())
	}
	return err
}

// crowd is the process of pods that stay.
type crowd struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// containerIn makes a cgroup that looks like a container's: what one container may make is bounded.
func containerIn(l *lab.Lab, number int) (*os.File, error) {
	path := filepath.Join(l.Workload(), "clients", fmt.Sprintf("%064x", number))
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	return os.Open(path)
}

// startCrowd starts one that has made n pods, in the container with that number.
func startCrowd(l *lab.Lab, number, n int) (*crowd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := containerIn(l, number)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	c := &crowd{cmd: exec.Command(self, "pods", "crowd", fmt.Sprint(n))}
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd()), Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	if err := l.Within(lab.ClientHost, c.cmd.Start); err != nil {
		return nil, err
	}
	if err := c.answer("make pods"); err != nil {
		return nil, errors.Join(err, c.end())
	}
	return c, nil
}

// do has it do something, and waits until that is done.
func (c *crowd) do(what string) error {
	if _, err := io.WriteString(c.in, what+"\n"); err != nil {
		return err
	}
	return c.answer(what)
}

func (c *crowd) answer(what string) error {
	line, err := c.out.ReadString('\n')
	if err != nil {
		return fmt.Errorf("pods: %s: %w", what, err)
	}
	if line = strings.TrimSpace(line); line != "done" {
		return fmt.Errorf("pods: %s: %s", what, line)
	}
	return nil
}

func (c *crowd) end() error {
	return errors.Join(c.in.Close(), c.cmd.Wait())
}

// Crowd is the program: it makes n pods, does what lines of input ask, and answers each line with "done" or an error, until the input ends.
func Crowd(n int, in io.Reader, out io.Writer) error {
	spec := pods.CrowdSpec{Service: service, Server: server, Ports: destinations, Count: n, Rounds: 2, Patience: patience}
	for i := range destinations {
		spec.Hosts = append(spec.Hosts, fmt.Sprintf("host%d", i))
	}
	all, err := pods.NewCrowd(spec)
	if err != nil {
		return err
	}
	say := func(err error) {
		if err != nil {
			fmt.Fprintln(out, strings.ReplaceAll(err.Error(), "\n", "; "))
			return
		}
		fmt.Fprintln(out, "done")
	}
	say(nil)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		switch lines.Text() {
		case "ask":
			say(all.Ask())
		case "hang up":
			all.HangUp()
			say(nil)
		default:
			say(errors.New("no such thing"))
		}
	}
	return all.Close()
}

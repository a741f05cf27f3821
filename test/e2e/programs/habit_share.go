// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// shareHabits use one connection by more than one descriptor or process.
var shareHabits = habitKind{
	"dup, and the original closed":          shareDup,
	"a child inherits it, both use it":      shareInherited,
	"passed to another process, SCM_RIGHTS": sharePassed,
	"used by threads in turn":               shareThreads,
}

func shareDup(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	if err := h.ask(fd, plainQuestion); err != nil {
		return err
	}
	second, err := unix.Dup(fd)
	if err != nil {
		return os.NewSyscallError("dup", err)
	}
	if err := unix.Close(fd); err != nil {
		return os.NewSyscallError("close", err)
	}
	return h.ask(second, plainQuestion)
}

// heirFD is where a child finds what it inherits.
const heirFD = 3

// runHeir makes one request on the connection that it inherits. With the argument "receive" it inherits a socket from
// which to receive the connection.
func runHeir(s *stdio) error {
	how, err := s.command()
	if err != nil {
		return err
	}
	fd := heirFD
	if how == "receive" {
		if fd, err = receiveDescriptor(heirFD); err != nil {
			return err
		}
	}
	h := &habit{}
	if err := h.ask(fd, plainQuestion); err != nil {
		return err
	}
	fmt.Println(h.notes[0])
	return nil
}

// heir runs a child with a descriptor and notes what it notes.
func (h *habit) heir(fd int, how string) error {
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), Variable+"="+heirProgram)
	child.Stdin, child.Stderr = strings.NewReader(how+"\n"), os.Stderr
	// The file owns a descriptor of its own: its end must not close ours.
	own, err := unix.Dup(fd)
	if err != nil {
		return os.NewSyscallError("dup", err)
	}
	file := os.NewFile(uintptr(own), "inherited")
	defer file.Close()
	child.ExtraFiles = []*os.File{file}
	output, err := child.Output()
	if err != nil {
		return err
	}
	h.note("child: %s", strings.TrimSpace(string(output)))
	return nil
}

func shareInherited(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	for range 2 {
		if err := h.ask(fd, plainQuestion); err != nil {
			return err
		}
		if err := h.heir(fd, "inherit"); err != nil {
			return err
		}
	}
	return h.ask(fd, plainQuestion)
}

func sharePassed(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	if err := h.ask(fd, plainQuestion); err != nil {
		return err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(fd), nil, 0); err != nil {
		return os.NewSyscallError("sendmsg", err)
	}
	// The only descriptor is now the one on its way.
	if err := unix.Close(fd); err != nil {
		return os.NewSyscallError("close", err)
	}
	return h.heir(pair[1], "receive")
}

func receiveDescriptor(from int) (int, error) {
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(from, make([]byte, 1), control, 0)
	if err != nil {
		return 0, os.NewSyscallError("recvmsg", err)
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return 0, err
	}
	if len(messages) != 1 {
		return 0, fmt.Errorf("%d control messages, want 1", len(messages))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return 0, err
	}
	return fds[0], nil
}

func shareThreads(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	for range 4 {
		asked := make(chan error, 1)
		go func() { asked <- h.ask(fd, plainQuestion) }()
		if err := <-asked; err != nil {
			return err
		}
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"

	"golang.org/x/sys/unix"
)

// Heir is a process that is passed sockets, and sends on them.
type Heir struct {
	mu sync.Mutex // one at a time
	fd int
}

// HeirDescriptor is where the heir has its end of the connection to whom it serves.
const HeirDescriptor = 3

// StartHeir starts one. It ends with this process.
func StartHeir(command *exec.Cmd) (*Heir, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	its := os.NewFile(uintptr(ends[1]), "heir")
	defer its.Close()
	command.ExtraFiles = []*os.File{its}
	if err := command.Start(); err != nil {
		unix.Close(ends[0])
		return nil, fmt.Errorf("start an heir: %w", err)
	}
	// It goes when its input ends: nobody need wait for it.
	go func() { _ = command.Wait() }()
	return &Heir{fd: ends[0]}, nil
}

// send passes the socket on, and returns when b has been sent on it.
func (h *Heir) send(socket int, b []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	size := binary.BigEndian.AppendUint32(nil, uint32(len(b)))
	if err := unix.Sendmsg(h.fd, size, unix.UnixRights(socket), nil, unix.MSG_NOSIGNAL); err != nil {
		return err
	}
	for len(b) > 0 {
		n, err := unix.SendmsgN(h.fd, b, nil, nil, unix.MSG_NOSIGNAL)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		b = b[max(n, 0):]
	}
	var errno [4]byte
	if _, err := io.ReadFull(socketReader(h.fd), errno[:]); err != nil {
		return fmt.Errorf("answer of the heir: %w", err)
	}
	if n := binary.BigEndian.Uint32(errno[:]); n != 0 {
		return unix.Errno(n)
	}
	return nil
}

func socketReader(fd int) io.Reader { return &socket{fd: fd} }

// RunHeir serves until nobody asks any more.
func RunHeir() error {
	for {
		var size [4]byte
		control := make([]byte, unix.CmsgSpace(4))
		n, controls, _, _, err := unix.Recvmsg(HeirDescriptor, size[:], control, unix.MSG_CMSG_CLOEXEC|unix.MSG_WAITALL)
		if err != nil || n < len(size) {
			return err
		}
		messages, err := unix.ParseSocketControlMessage(control[:controls])
		if err != nil || len(messages) != 1 {
			return fmt.Errorf("no socket was passed: %w", err)
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil {
			return err
		}
		b := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(socketReader(HeirDescriptor), b); err != nil {
			return err
		}
		var errno unix.Errno
		err = (&conn{fd: fds[0]}).sendAll(b, 0)
		if err != nil && !errors.As(err, &errno) {
			return err
		}
		unix.Close(fds[0])
		if _, err := unix.Write(HeirDescriptor, binary.BigEndian.AppendUint32(nil, uint32(errno))); err != nil {
			return err
		}
	}
}

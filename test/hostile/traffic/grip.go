// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// grip holds the locks of sockets of other processes: for each a thread sends from memory that is not there yet (userfaultfd), as a
// process does whose memory was swapped out. The kernel waits for the page with the socket locked. When it is let go the memory must
// not be read any more, so that nothing is sent.
type grip struct {
	fds    []int
	memory []byte
	faults int
	held   []chan error
}

// Of linux/userfaultfd.h.
const (
	uffdAPI          = 0xaa
	uffdIoctlAPI     = 0xc018aa3f
	uffdIoctlHold    = 0xc020aa00 // UFFDIO_REGISTER
	uffdIoctlWake    = 0x8010aa02
	uffdModeMissing  = 1
	uffdCloseOnExec  = unix.O_CLOEXEC
	gripPollInterval = 50 * time.Microsecond
)

// ErrNoGrip tells that this kernel, or who runs this, has no userfaultfd for faults in the kernel.
var ErrNoGrip = errors.New("userfaultfd is not to be had")

// takeGrip locks the established sockets of a process that end at, or begin from, a port.
func takeGrip(pid int, port uint16) (*grip, error) {
	g := &grip{faults: -1}
	if err := g.find(pid, port); err != nil {
		return nil, errors.Join(err, g.drop())
	}
	if len(g.fds) == 0 {
		return nil, fmt.Errorf("process %d has no connection of port %d", pid, port)
	}
	return g.take()
}

// Grip holds the locks of a process's connections of a port.
type Grip struct{ held *grip }

// TakeGrip takes them. ErrNoGrip: that can't be done here.
func TakeGrip(pid int, port uint16) (Grip, error) {
	g, err := takeGrip(pid, port)
	return Grip{g}, err
}

// Release lets them go.
func (g Grip) Release() error {
	err := g.held.release()
	return errors.Join(err, g.held.drop())
}

// WaitsForALock tells whether a thread of a process waits for the lock of a socket at this moment.
func WaitsForALock(pid int) bool { return waitsForALock(pid) }

// AwaitLocked waits until a thread of a process waits for the lock of a socket; false: none does.
func AwaitLocked(pid int) bool { return awaitLocked(pid, lockPatience) }

// takeGripOf locks a socket of this process.
func takeGripOf(fd int) (*grip, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return (&grip{faults: -1, fds: []int{own}}).take()
}

func (g *grip) take() (*grip, error) {
	if err := g.prepare(); err != nil {
		return nil, errors.Join(err, g.drop())
	}
	for _, fd := range g.fds {
		g.hold(fd)
	}
	return g, nil
}

// find takes duplicates of the sockets.
func (g *grip) find(pid int, port uint16) error {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(process)
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return err
	}
	for _, e := range entries {
		number, err := strconv.Atoi(e.Name())
		if err != nil {
			return err
		}
		fd, err := unix.PidfdGetfd(process, number, 0)
		if err != nil {
			continue // closed in between
		}
		if isOf(fd, port) {
			g.fds = append(g.fds, fd)
			continue
		}
		unix.Close(fd)
	}
	return nil
}

// isOf tells whether fd is a connection with that port at one of its ends.
func isOf(fd int, port uint16) bool {
	peer, err := unix.Getpeername(fd)
	if err != nil {
		return false
	}
	own, err := unix.Getsockname(fd)
	return err == nil && (portOf(peer) == port || portOf(own) == port)
}

func portOf(a unix.Sockaddr) uint16 {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return uint16(a.Port)
	case *unix.SockaddrInet6:
		return uint16(a.Port)
	}
	return 0
}

// prepare makes memory whose pages do not come.
func (g *grip) prepare() error {
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, uffdCloseOnExec, 0, 0)
	if errno != 0 {
		return fmt.Errorf("%w: %w", ErrNoGrip, errno)
	}
	g.faults = int(fd)
	api := struct{ api, features, ioctls uint64 }{api: uffdAPI}
	if err := ioctl(g.faults, uffdIoctlAPI, unsafe.Pointer(&api)); err != nil {
		return fmt.Errorf("%w: %w", ErrNoGrip, err)
	}
	memory, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	g.memory = memory
	watch := struct{ start, size, mode, ioctls uint64 }{g.start(), uint64(len(memory)), uffdModeMissing, 0}
	return ioctl(g.faults, uffdIoctlHold, unsafe.Pointer(&watch))
}

func (g *grip) start() uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(g.memory)))) }

func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// hold sends a byte that does not come.
func (g *grip) hold(fd int) {
	done := make(chan error, 1)
	g.held = append(g.held, done)
	address := uintptr(g.start())
	waits := make(chan int, 1)
	go func() {
		waits <- unix.Gettid()
		n, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(fd), address, 1, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch {
		// A socket with a program of its own says 0.
		case errno == unix.EFAULT, errno == 0 && n == 0:
		// It was about to close.
		case errno == unix.EPIPE, errno == unix.ECONNRESET, errno == unix.ENOTCONN, errno == unix.EAGAIN:
		default:
			done <- fmt.Errorf("send from memory that is not there: %d, %w", n, errno)
			return
		}
		done <- nil
	}()
	awaitCall(<-waits, unix.SYS_SENDTO, gripPatience)
}

// gripPatience bounds the wait for a thread to wait.
const gripPatience = 100 * time.Millisecond

// awaitCall waits until a thread of this process sleeps in a system call; false: it does not.
func awaitCall(tid, number int, patience time.Duration) bool {
	prefix := fmt.Sprintf("%d ", number)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(gripPollInterval) {
		// One that does not sleep is "running".
		call, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", tid))
		if err != nil {
			return false
		}
		if strings.HasPrefix(string(call), prefix) {
			return true
		}
	}
	return false
}

// awaitLocked waits until a thread of a process waits for the lock of a socket; false: none does.
func awaitLocked(pid int, patience time.Duration) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(gripPollInterval) {
		if waitsForALock(pid) {
			return true
		}
	}
	return false
}

func waitsForALock(pid int) bool {
	// Those that end meanwhile are not there.
	waits, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", pid))
	for _, name := range waits {
		if where, err := os.ReadFile(name); err == nil && string(where) == "__lock_sock" {
			return true
		}
	}
	return false
}

// release lets the sockets go, and returns when the threads that held them do so no more. Who waits for the locks has not run since, if others
// keep its processor.
func (g *grip) release() error {
	wake := struct{ start, size uint64 }{g.start(), uint64(len(g.memory))}
	// Not unmapped yet: the address could be somebody else's at once.
	all := unix.Mprotect(g.memory, unix.PROT_NONE)
	if all != nil {
		return all
	}
	all = ioctl(g.faults, uffdIoctlWake, unsafe.Pointer(&wake))
	for _, h := range g.held {
		all = errors.Join(all, <-h)
	}
	g.held = nil
	return all
}

// drop ends the grip, and returns what was wrong with it.
func (g *grip) drop() error {
	var all error
	if g.memory != nil && g.held != nil {
		all = g.release()
	}
	if g.memory != nil {
		_ = unix.Munmap(g.memory)
	}
	for _, fd := range append(g.fds, g.faults) {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	return all
}

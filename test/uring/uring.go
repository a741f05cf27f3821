// SPDX-License-Identifier: Apache-2.0

// Package uring does single operations on a socket by io_uring, without a library: for tests of who sends and receives that way.
package uring

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Constants and layouts of linux/io_uring.h, which x/sys/unix does not have.
const (
	offSQRing = 0
	offSQEs   = 0x10000000
	enterWait = 1 // IORING_ENTER_GETEVENTS
	opSend    = 26
	opRecv    = 27
	oneMmap   = 1 // IORING_FEAT_SINGLE_MMAP, Linux 5.4
	entries   = 4
)

type sqOffsets struct {
	head, tail, ringMask, ringEntries, flags, dropped, array, resv1 uint32
	userAddr                                                        uint64
}

type cqOffsets struct {
	head, tail, ringMask, ringEntries, overflow, cqes, flags, resv1 uint32
	userAddr                                                        uint64
}

type params struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFD uint32
	resv                                                                   [3]uint32
	sq                                                                     sqOffsets
	cq                                                                     cqOffsets
}

type submission struct {
	opcode, flags uint8
	ioprio        uint16
	fd            int32
	off, addr     uint64
	length        uint32
	opFlags       uint32
	userData      uint64
	pad           [3]uint64
}

type completionEntry struct {
	userData uint64
	res      int32
	flags    uint32
}

// Socket submits one operation at a time and waits for its completion.
type Socket struct {
	fd, ring   int
	params     params
	rings, sqe []byte
}

// New makes a ring for a socket, which stays the caller's. It fails where the kernel has no io_uring, or does not allow it.
func New(fd int) (*Socket, error) {
	u := &Socket{fd: fd}
	ring, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, entries, uintptr(unsafe.Pointer(&u.params)), 0)
	if errno != 0 {
		return nil, os.NewSyscallError("io_uring_setup", errno)
	}
	u.ring = int(ring)
	if u.params.features&oneMmap == 0 {
		return nil, errors.Join(errors.New("io_uring: the kernel is older than 5.4"), unix.Close(u.ring))
	}
	if err := u.mmap(); err != nil {
		return nil, errors.Join(err, u.Close())
	}
	return u, nil
}

func (u *Socket) mmap() (err error) {
	p := &u.params
	size := max(p.sq.array+p.sqEntries*4, p.cq.cqes+p.cqEntries*uint32(unsafe.Sizeof(completionEntry{})))
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	if u.rings, err = unix.Mmap(u.ring, offSQRing, int(size), prot, flags); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	sqes := int(p.sqEntries) * int(unsafe.Sizeof(submission{}))
	if u.sqe, err = unix.Mmap(u.ring, offSQEs, sqes, prot, flags); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	return nil
}

func (u *Socket) word(offset uint32) *uint32 {
	return (*uint32)(unsafe.Pointer(&u.rings[offset]))
}

// Read is a Reader, but for the end of the connection: 0 bytes.
func (u *Socket) Read(p []byte) (int, error) { return u.do(opRecv, p, 0) }

// Write sends once: it may take a part.
func (u *Socket) Write(p []byte) (int, error) { return u.do(opSend, p, unix.MSG_NOSIGNAL) }

// do submits one operation on p and returns its result.
func (u *Socket) do(opcode uint8, p []byte, flags uint32) (int, error) {
	var pinned runtime.Pinner
	pinned.Pin(&p[0])
	defer pinned.Unpin()

	tail := u.word(u.params.sq.tail)
	slot := *tail & *u.word(u.params.sq.ringMask)
	sqe := (*submission)(unsafe.Pointer(&u.sqe[uintptr(slot)*unsafe.Sizeof(submission{})]))
	*sqe = submission{
		opcode: opcode, fd: int32(u.fd), addr: uint64(uintptr(unsafe.Pointer(&p[0]))),
		length: uint32(len(p)), opFlags: flags,
	}
	*u.word(u.params.sq.array + 4*slot) = slot
	atomic.AddUint32(tail, 1)
	if err := u.enter(); err != nil {
		return 0, err
	}
	return u.completion()
}

// enter submits what is in the ring and waits for one completion. Repeating it
// after a signal is harmless: the kernel takes only entries it has not taken.
func (u *Socket) enter() error {
	for !u.completed() {
		_, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(u.ring), 1, 1, enterWait, 0, 0)
		if errno != 0 && errno != unix.EINTR {
			return os.NewSyscallError("io_uring_enter", errno)
		}
	}
	return nil
}

func (u *Socket) completed() bool {
	return atomic.LoadUint32(u.word(u.params.cq.tail)) != *u.word(u.params.cq.head)
}

func (u *Socket) completion() (int, error) {
	head := u.word(u.params.cq.head)
	slot := *head & *u.word(u.params.cq.ringMask)
	offset := uintptr(u.params.cq.cqes) + uintptr(slot)*unsafe.Sizeof(completionEntry{})
	cqe := *(*completionEntry)(unsafe.Pointer(&u.rings[offset]))
	atomic.AddUint32(head, 1)
	if cqe.res < 0 {
		return 0, unix.Errno(-cqe.res)
	}
	return int(cqe.res), nil
}

// Close ends the ring alone.
func (u *Socket) Close() error {
	var problems []error
	for _, m := range [][]byte{u.rings, u.sqe} {
		if m != nil {
			problems = append(problems, unix.Munmap(m))
		}
	}
	return errors.Join(append(problems, unix.Close(u.ring))...)
}

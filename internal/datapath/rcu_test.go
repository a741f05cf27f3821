// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps/bpfmap"
	"github.com/xlb-project/xlb/test/await"
)

// A program that runs when the daemon begins to wait for programs has ended when that wait has. Each kind is run by code of its own in the
// kernel. What gives the verdict is the order: the program runs until the test releases it, which it does when the kernel has put the waiting
// thread to sleep. A wait that does not wait comes back to a program that runs.
func TestProgramsThatRunAreWaitedFor(t *testing.T) {
	must(t, bpfmap.SynchronizeRCU())
	for _, kind := range []struct {
		name string
		make func(*spinner, *testing.T) (send func() error)
	}{
		{"sk_msg", (*spinner).asMessages},
		{"sk_skb", (*spinner).asVerdict},
		{"tp_btf", (*spinner).asTracepoint},
	} {
		t.Run(kind.name, func(t *testing.T) {
			s := newSpinner(t)
			send := kind.make(s, t)
			for range 5 {
				if s.synchronize(t, send) {
					return
				}
			}
			if runtime.NumCPU() == 1 {
				t.Skip("needs a second processor: this kernel does not preempt the program (it does sk_msg with preempt=full)")
			}
			t.Fatal("the program has run to its own end each time: no wait began before that")
		})
	}
}

// A spinner is a program that runs until it is released, or, so that a test that gets no processor does not hold one for ever, for some seconds.
type spinner struct {
	shared *ebpf.Map
	words  *spinnerWords
}

// spinnerWords is what test and program share.
type spinnerWords struct {
	// Of the socket that runs it, where others may as well.
	cookie uint64
	// The next run spins. Cleared by it.
	armed            uint64
	running, ended   uint64
	released, unused uint64
}

// Offsets of spinnerWords.
const (
	cookieAt   = 0
	armedAt    = 8
	runningAt  = 16
	endedAt    = 24
	releasedAt = 32
)

// What the program writes to spinnerWords.ended.
const (
	endedReleased = 1
	endedItself   = 2
)

func newSpinner(t *testing.T) *spinner {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Type: ebpf.Array, KeySize: 4, ValueSize: uint32(unsafe.Sizeof(spinnerWords{})), MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE,
	})
	must(t, err)
	memory, err := unix.Mmap(m.FD(), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	t.Cleanup(func() {
		must(t, unix.Munmap(memory))
		m.Close()
	})
	return &spinner{shared: m, words: (*spinnerWords)(unsafe.Pointer(&memory[0]))}
}

// synchronize waits for programs while one spins, and reports whether it was seen to wait before that ended of itself.
func (s *spinner) synchronize(t *testing.T, send func() error) bool {
	t.Helper()
	w := s.words
	atomic.StoreUint64(&w.running, 0)
	atomic.StoreUint64(&w.ended, 0)
	atomic.StoreUint64(&w.released, 0)
	atomic.StoreUint64(&w.armed, 1)
	sent := make(chan error, 1)
	go func() { sent <- send() }()
	await.Quiet(t, func() string {
		if atomic.LoadUint64(&w.running) == 0 {
			return "the program does not run"
		}
		return ""
	})

	thread, returned := make(chan int, 1), make(chan error, 1)
	var endedBefore uint64
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread <- unix.Gettid()
		err := bpfmap.SynchronizeRCU()
		endedBefore = atomic.LoadUint64(&w.ended)
		returned <- err
	}()
	waiting := sleepsInUpdate(t, <-thread, returned, &w.ended)
	atomic.StoreUint64(&w.released, 1)
	must(t, <-returned)
	must(t, <-sent)
	if endedBefore == 0 {
		t.Fatal("the wait has ended while the program ran")
	}
	return waiting && endedBefore == endedReleased
}

// sleepsInUpdate returns true once the thread sleeps in an update of a map, and false if the wait, or the program, ends before that.
func sleepsInUpdate(t *testing.T, thread int, returned chan error, ended *uint64) (sleeps bool) {
	t.Helper()
	const update = 2
	want := fmt.Sprintf("%d %#x ", unix.SYS_BPF, update)
	await.Quiet(t, func() string {
		call, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", thread))
		must(t, err)
		sleeps = strings.HasPrefix(string(call), want)
		if sleeps || len(returned) > 0 || atomic.LoadUint64(ended) != 0 {
			return ""
		}
		return "the wait has not begun, nor ended: " + string(call)
	})
	return sleeps
}

// program returns the program, behind what decides whether a run is the socket's: that jumps to "out" if not.
func (s *spinner) program(t *testing.T, kind ebpf.ProgramSpec, mine asm.Instructions, verdict int32) *ebpf.Program {
	t.Helper()
	const tries = 1 << 23 // the most of bpf_loop
	number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	main := &btf.Func{Name: "spin", Linkage: btf.GlobalFunc, Type: &btf.FuncProto{
		Return: number, Params: []btf.FuncParam{{Name: "ctx", Type: &btf.Pointer{Target: &btf.Void{}}}},
	}}
	step := &btf.Func{Name: "released", Linkage: btf.StaticFunc, Type: &btf.FuncProto{
		Return: number, Params: []btf.FuncParam{{Name: "i", Type: number}, {Name: "ctx", Type: &btf.Pointer{Target: &btf.Void{}}}},
	}}
	ins := asm.Instructions{btf.WithFuncMetadata(asm.Mov.Reg(asm.R6, asm.R1).WithSymbol("spin"), main)}
	ins = append(ins, mine...)
	ins = append(ins,
		asm.LoadMapValue(asm.R7, s.shared.FD(), 0),
		asm.LoadMem(asm.R1, asm.R7, armedAt, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "out"),
		asm.StoreMem(asm.R7, runningAt, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.R7, armedAt, asm.R1, asm.DWord),
	)
	for range 32 {
		ins = append(ins,
			asm.Mov.Imm(asm.R1, tries),
			asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: asm.R2, Src: asm.PseudoFunc, Constant: -1}.WithReference("released"),
			asm.Mov.Imm(asm.R3, 0),
			asm.Mov.Imm(asm.R4, 0),
			asm.FnLoop.Call(),
		)
	}
	ins = append(ins,
		asm.LoadMem(asm.R1, asm.R7, releasedAt, asm.DWord),
		asm.Mov.Imm(asm.R2, endedReleased),
		asm.JNE.Imm(asm.R1, 0, "ended"),
		asm.Mov.Imm(asm.R2, endedItself),
		asm.StoreMem(asm.R7, endedAt, asm.R2, asm.DWord).WithSymbol("ended"),
		asm.Mov.Imm(asm.R0, verdict).WithSymbol("out"),
		asm.Return(),
		btf.WithFuncMetadata(asm.LoadMapValue(asm.R1, s.shared.FD(), 0).WithSymbol("released"), step),
		asm.LoadMem(asm.R1, asm.R1, releasedAt, asm.DWord),
		asm.Mov.Imm(asm.R0, 0),
		asm.JEq.Imm(asm.R1, 0, "on"),
		asm.Mov.Imm(asm.R0, 1),
		asm.Return().WithSymbol("on"),
	)
	kind.License, kind.Instructions = "GPL", ins
	p, err := ebpf.NewProgram(&kind)
	must(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

const passes = 1

// attach has the sockets of a map run the program.
func attach(t *testing.T, p *ebpf.Program, kind ebpf.AttachType, fd int) {
	t.Helper()
	sockets, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.SockMap, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	must(t, err)
	t.Cleanup(func() { sockets.Close() })
	must(t, link.RawAttachProgram(link.RawAttachProgramOptions{Target: sockets.FD(), Program: p, Attach: kind}))
	must(t, sockets.Put(uint32(0), uint32(fd)))
}

// sends returns a function that sends a byte, and reads it at the other end.
func sends(to io.Writer, from net.Conn) func() error {
	return func() error {
		if _, err := to.Write([]byte{1}); err != nil {
			return err
		}
		_, err := io.ReadFull(from, make([]byte, 1))
		return err
	}
}

func (s *spinner) asMessages(t *testing.T) func() error {
	f, peer := tcpFile(t)
	attach(t, s.program(t, ebpf.ProgramSpec{Type: ebpf.SkMsg}, nil, passes), ebpf.AttachSkMsgVerdict, int(f.Fd()))
	return sends(f, peer)
}

func (s *spinner) asVerdict(t *testing.T) func() error {
	f, peer := tcpFile(t)
	p := s.program(t, ebpf.ProgramSpec{Type: ebpf.SkSKB, AttachType: ebpf.AttachSkSKBVerdict}, nil, passes)
	attach(t, p, ebpf.AttachSkSKBVerdict, int(f.Fd()))
	return func() error {
		if _, err := peer.Write([]byte{1}); err != nil {
			return err
		}
		_, err := f.Read(make([]byte, 1))
		return err
	}
}

func (s *spinner) asTracepoint(t *testing.T) func() error {
	f, peer := tcpFile(t)
	cookie, err := unix.GetsockoptUint64(int(f.Fd()), unix.SOL_SOCKET, unix.SO_COOKIE)
	must(t, err)
	s.words.cookie = cookie
	p := s.program(t, ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: "sock_send_length"}, asm.Instructions{
		asm.LoadMem(asm.R1, asm.R6, 0, asm.DWord),
		asm.FnGetSocketCookie.Call(),
		asm.LoadMapValue(asm.R1, s.shared.FD(), 0),
		asm.LoadMem(asm.R1, asm.R1, cookieAt, asm.DWord),
		asm.JNE.Reg(asm.R0, asm.R1, "out"),
	}, 0)
	l, err := link.AttachTracing(link.TracingOptions{Program: p, AttachType: ebpf.AttachTraceRawTp})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return sends(f, peer)
}

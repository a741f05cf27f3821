// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// What the program of socketProgram returns.
const (
	socketGone = iota
	socketInUse
	socketResetAndHeld
)

// ResetServerSockets counts the entries of ssocks whose connection has been reset while the server still holds the
// descriptor. The kernel takes an entry out when the server closes the socket, and no earlier: what the server has not
// read is in there. nginx 1.22 holds such a socket for its keepalive_timeout: it has answered a request, and the client
// resets while nginx discards the rest of the body.
//
// A socket without a descriptor is not counted: if it has an entry, that is a leftover.
func (b *Balancer) ResetServerSockets(t testing.TB) (n int) {
	t.Helper()
	for _, m := range b.maps(t, "ssocks") {
		n += resetSockets(t, m)
		m.Close()
	}
	return n
}

func resetSockets(t testing.TB, sockets *ebpf.Map) (n int) {
	t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: socketProgram(sockets.FD(), holderOffset(t))})
	if err != nil {
		t.Fatalf("load the program that looks at a server's socket: %+v", err)
	}
	defer program.Close()
	key, err := sockets.NextKeyBytes(nil)
	for ; err == nil && key != nil; key, err = sockets.NextKeyBytes(key) {
		result, err := program.Run(&ebpf.RunOptions{Data: append(make([]byte, keyOffset), key...)})
		if err != nil {
			t.Fatalf("look at a server's socket: %v", err)
		}
		if result == socketResetAndHeld {
			n++
		}
	}
	if err != nil {
		t.Fatalf("walk through map ssocks: %v", err)
	}
	return n
}

// holderOffset is where a socket of the kernel says which descriptor it belongs to; nil: to none.
func holderOffset(t testing.TB) int16 {
	t.Helper()
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatalf("types of the kernel: %v", err)
	}
	var sock *btf.Struct
	if err := spec.TypeByName("sock", &sock); err != nil {
		t.Fatalf("types of the kernel: %v", err)
	}
	for _, m := range sock.Members {
		if m.Name == "sk_socket" {
			return int16(m.Offset.Bytes())
		}
	}
	t.Fatal("struct sock of this kernel has no member sk_socket")
	return 0
}

const (
	// keyOffset is where the program finds the key of an entry: behind the Ethernet header of the packet that it is run with.
	keyOffset = 14
	// These are offsets of struct __sk_buff and struct bpf_sock, which the kernel keeps.
	dataOffset, dataEndOffset, stateOffset = 76, 80, 72
)

// socketProgram looks a socket up: user space gets only its cookie.
func socketProgram(sockets int, holder int16) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Imm(asm.R8, socketGone),
		asm.LoadMem(asm.R2, asm.R1, dataOffset, asm.Word),
		asm.LoadMem(asm.R3, asm.R1, dataEndOffset, asm.Word),
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, keyOffset+4),
		asm.JGT.Reg(asm.R4, asm.R3, "out"),
		asm.LoadMem(asm.R2, asm.R2, keyOffset, asm.Word),
		asm.StoreMem(asm.RFP, -4, asm.R2, asm.Word),
		asm.LoadMapPtr(asm.R1, sockets),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.Mov.Imm(asm.R8, socketInUse),
		asm.LoadMem(asm.R1, asm.R7, stateOffset, asm.Word),
		asm.JNE.Imm(asm.R1, unix.BPF_TCP_CLOSE, "release"),
		asm.Mov.Reg(asm.R1, asm.R7),
		asm.FnSkcToTcpSock.Call(),
		asm.JEq.Imm(asm.R0, 0, "release"),
		asm.LoadMem(asm.R1, asm.R0, holder, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "release"),
		asm.Mov.Imm(asm.R8, socketResetAndHeld),
		asm.Mov.Reg(asm.R1, asm.R7).WithSymbol("release"),
		asm.FnSkRelease.Call(),
		asm.Mov.Reg(asm.R0, asm.R8).WithSymbol("out"),
		asm.Return(),
	}
}

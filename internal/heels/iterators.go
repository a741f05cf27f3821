// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"errors"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// listsMaps reports whether the kernel lets an iterator run over what a map of sockets' storage holds. Some forbid that: they answer EPERM to
// every program that is to run there. Any other fault is that of the program itself, and shows when that is loaded.
func listsMaps() bool {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "lists_maps", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, AttachTo: "bpf_sk_storage_map", License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err == nil {
		p.Close()
	}
	return !errors.Is(err, unix.EPERM)
}

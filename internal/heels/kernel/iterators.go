// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// DropOtherIterators leaves of the programs that list connections the ones that this kernel can run; with sparesMaps, the ones for kernels that
// let no iterator run over a map.
func DropOtherIterators(spec *ebpf.CollectionSpec, sparesMaps bool) {
	if ListsMaps() && !sparesMaps {
		delete(spec.Programs, kernelProgHeelsConnectionsClient)
		delete(spec.Programs, kernelProgHeelsConnectionsServer)
		return
	}
	delete(spec.Programs, kernelProgHeelsConnections)
}

// ListsMaps reports whether the kernel lets an iterator run over what a map of sockets' storage holds. Some forbid that: they answer EPERM to
// every program that is to run there. Any other fault is that of the program itself, and shows when that is loaded.
func ListsMaps() bool {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "lists_maps", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, AttachTo: "bpf_sk_storage_map", License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err == nil {
		p.Close()
	}
	return !errors.Is(err, unix.EPERM)
}

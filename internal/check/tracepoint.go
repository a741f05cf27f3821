// SPDX-License-Identifier: Apache-2.0

package check

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// tracepoint is a place in the kernel that programs can be attached to for the whole machine.
type tracepoint string

func (t tracepoint) String() string { return string(t) }

// tracepoints: the kernel says how many bytes a send has taken. Since Linux 6.3.
var tracepoints = []tracepoint{"sock_send_length"}

// attach attaches a program that does nothing, for a moment. Kernels may load what they refuse to
// attach.
func (t tracepoint) attach() error {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: string(t), License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return err
	}
	defer p.Close()
	l, err := link.AttachTracing(link.TracingOptions{Program: p, AttachType: ebpf.AttachTraceRawTp})
	if err != nil {
		return err
	}
	return l.Close()
}

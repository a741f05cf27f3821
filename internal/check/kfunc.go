// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// kfuncProgram is an sk_msg program that reads kernel structures through a function of
// the kernel: the request program looks at its target's room and state this way.
type kfuncProgram struct {
	name string
	body func(k *kernelTypes) (asm.Instructions, error)
}

func (p kfuncProgram) String() string { return p.name }

func (p kfuncProgram) load() error {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return err
	}
	body, err := p.body(&kernelTypes{spec})
	if err != nil {
		return err
	}
	loaded, err := load(ebpf.SkMsg, ebpf.AttachSkMsgVerdict, body)
	if err != nil {
		return err
	}
	return loaded.Close()
}

var kfuncPrograms = []kfuncProgram{
	{"bpf_cast_to_kern_ctx", readTarget},
	{"bpf_rdonly_cast", readSequence},
}

// kernelTypes looks up what programs need of the kernel's BTF.
type kernelTypes struct {
	spec *btf.Spec
}

// call is the instruction that calls a function of the kernel by its BTF id.
func (k *kernelTypes) call(name string) (asm.Instruction, error) {
	var fn *btf.Func
	if err := k.spec.TypeByName(name, &fn); err != nil {
		return asm.Instruction{}, fmt.Errorf("not in the kernel: %w", ebpf.ErrNotSupported)
	}
	id, err := k.spec.TypeID(fn)
	if err != nil {
		return asm.Instruction{}, err
	}
	return asm.Instruction{
		OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoKfuncCall, Constant: int64(id),
	}, nil
}

// member is the offset of a member of a structure in bytes, and the structure's id.
func (k *kernelTypes) member(structure, name string) (offset int16, id btf.TypeID, err error) {
	var s *btf.Struct
	if err := k.spec.TypeByName(structure, &s); err != nil {
		return 0, 0, err
	}
	if id, err = k.spec.TypeID(s); err != nil {
		return 0, 0, err
	}
	for _, m := range s.Members {
		if m.Name == name {
			return int16(m.Offset.Bytes()), id, nil
		}
	}
	return 0, 0, fmt.Errorf("struct %s has no member %s: %w", structure, name, ebpf.ErrNotSupported)
}

// readTarget follows the pointer to the socket that a message is redirected to.
func readTarget(k *kernelTypes) (asm.Instructions, error) {
	cast, err := k.call("bpf_cast_to_kern_ctx")
	if err != nil {
		return nil, err
	}
	target, _, err := k.member("sk_msg", "sk_redir")
	if err != nil {
		return nil, err
	}
	room, _, err := k.member("sock", "sk_sndbuf")
	if err != nil {
		return nil, err
	}
	return asm.Instructions{
		cast,
		asm.LoadMem(asm.R1, asm.R0, target, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "pass"),
		asm.LoadMem(asm.R1, asm.R1, room, asm.Word),
		asm.Mov.Imm(asm.R0, 1).WithSymbol("pass"),
		asm.Return(),
	}, nil
}

// readSequence reads a TCP socket's sequence number from a pointer that the verifier
// knows nothing about.
func readSequence(k *kernelTypes) (asm.Instructions, error) {
	cast, err := k.call("bpf_cast_to_kern_ctx")
	if err != nil {
		return nil, err
	}
	view, err := k.call("bpf_rdonly_cast")
	if err != nil {
		return nil, err
	}
	sequence, id, err := k.member("tcp_sock", "copied_seq")
	if err != nil {
		return nil, err
	}
	return asm.Instructions{
		cast,
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.Mov.Imm(asm.R2, int32(id)),
		view,
		asm.LoadMem(asm.R1, asm.R0, sequence, asm.Word),
		asm.Mov.Imm(asm.R0, 1),
		asm.Return(),
	}, nil
}

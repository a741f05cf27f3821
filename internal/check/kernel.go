// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"

	"github.com/xlb-project/xlb/internal/lpm"
)

const kernelRemedy = "boot a kernel of " + recommendedKernel + " or newer"

// kernelProbes try everything that the kernel programs are built on.
func kernelProbes() []probe {
	return []probe{
		{"btf", needRun, typeInformation},
		{"interception", needRun, attempts(hooks, loadHook)},
		{"interception helpers", needRun, attempts(interceptionHelpers, haveHelper)},
		{"interception maps", needRun, attempts(interceptionMaps, haveMap)},
		{"socket redirection", needFastPath, attempts(socketPrograms, attachToSockhash)},
		{"fast path helpers", needFastPath, attempts(fastHelpers, haveHelper)},
		{"fast path maps", needFastPath, attempts(fastMaps, haveMap)},
		{"tries of prefixes", needFastPath, prefixTries},
		{"client exit hook", needFastPath, attempts([]hook{sockRelease}, loadHook)},
		{"outcome of sends", needFastPath, attempts(tracepoints, tracepoint.attach)},
		{"target inspection", needFastPath, attempts(kfuncPrograms, func(p kfuncProgram) error { return p.load() })},
	}
}

// attempts tries every item and joins what failed into one result.
func attempts[T fmt.Stringer](items []T, try func(T) error) func() Result {
	return func() Result {
		var names, failed []string
		for _, item := range items {
			names = append(names, item.String())
			if err := try(item); err != nil {
				failed = append(failed, fmt.Sprintf("%s: %s", item, reason(err)))
			}
		}
		if len(failed) > 0 {
			return missing(strings.Join(failed, "; "), kernelRemedy)
		}
		return ok(summary(names))
	}
}

// summary lists names, or counts them where a list would not fit a line.
func summary(names []string) string {
	if list := strings.Join(names, ", "); len(list) <= 80 {
		return list
	}
	return fmt.Sprintf("all %d", len(names))
}

// reason is an error on one line; the verifier's log would fill pages.
func reason(err error) string {
	if errors.Is(err, ebpf.ErrNotSupported) {
		return "not supported"
	}
	var refused *ebpf.VerifierError
	if errors.As(err, &refused) {
		return "refused: " + refused.Cause.Error()
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

func prefixTries() Result {
	if err := lpm.Check(); err != nil {
		return missing(reason(err), "boot a later kernel of the same series, or another")
	}
	return ok("flags and counts are as the manual says")
}

func typeInformation() Result {
	if _, err := btf.LoadKernelSpec(); err != nil {
		return missing("the kernel does not describe its types", "boot a kernel with CONFIG_DEBUG_INFO_BTF=y")
	}
	return ok("/sys/kernel/btf/vmlinux")
}

// hook is a place in a cgroup that a program can be attached to.
type hook struct {
	name   string
	kind   ebpf.ProgramType
	attach ebpf.AttachType
}

func (h hook) String() string { return h.name }

var (
	hooks = []hook{
		{"connect4", ebpf.CGroupSockAddr, ebpf.AttachCGroupInet4Connect},
		{"connect6", ebpf.CGroupSockAddr, ebpf.AttachCGroupInet6Connect},
		{"getpeername4", ebpf.CGroupSockAddr, ebpf.AttachCgroupInet4GetPeername},
		{"getpeername6", ebpf.CGroupSockAddr, ebpf.AttachCgroupInet6GetPeername},
		{"sock_ops", ebpf.SockOps, ebpf.AttachCGroupSockOps},
	}
	sockRelease = hook{"sock_release", ebpf.CGroupSock, ebpf.AttachCgroupInetSockRelease}
)

// answer is a program that lets everything pass.
var answer = asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}

func load(kind ebpf.ProgramType, attach ebpf.AttachType, body asm.Instructions) (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{Type: kind, AttachType: attach, Instructions: body, License: "Dual BSD/GPL"})
}

// loadHook proves that the kernel has the hook: it checks the attach type at load.
func loadHook(h hook) error {
	p, err := load(h.kind, h.attach, answer)
	if err != nil {
		return err
	}
	return p.Close()
}

// socketPrograms run for the sockets of a sockhash.
var socketPrograms = []hook{
	{"sk_msg", ebpf.SkMsg, ebpf.AttachSkMsgVerdict},
	{"sk_skb", ebpf.SkSKB, ebpf.AttachSkSKBStreamVerdict},
}

// attachToSockhash loads the program and attaches it to an empty map of its own.
func attachToSockhash(h hook) error {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.SockHash, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return err
	}
	p, err := load(h.kind, h.attach, answer)
	if err != nil {
		return errors.Join(err, m.Close())
	}
	err = link.RawAttachProgram(link.RawAttachProgramOptions{Target: m.FD(), Program: p, Attach: h.attach})
	// The program is detached when the map goes.
	return errors.Join(err, p.Close(), m.Close())
}

// helper is a helper function in a type of program.
type helper struct {
	kind ebpf.ProgramType
	fn   asm.BuiltinFunc
}

func (h helper) String() string { return fmt.Sprintf("%s in %s", h.fn, h.kind) }

var (
	interceptionHelpers = []helper{
		{ebpf.CGroupSockAddr, asm.FnSkStorageGet},
		{ebpf.CGroupSockAddr, asm.FnGetNetnsCookie},
		{ebpf.CGroupSockAddr, asm.FnGetCurrentPidTgid},
		{ebpf.SockOps, asm.FnSkStorageGet},
		{ebpf.SockOps, asm.FnGetSocketCookie},
		{ebpf.SockOps, asm.FnGetNetnsCookie},
	}
	fastHelpers = []helper{
		{ebpf.SkMsg, asm.FnMsgRedirectHash},
		{ebpf.SkMsg, asm.FnMsgPullData},
		{ebpf.SkMsg, asm.FnSkStorageGet},
		{ebpf.SkMsg, asm.FnLoop},
		{ebpf.SkMsg, asm.FnTailCall},
		{ebpf.SkMsg, asm.FnKtimeGetCoarseNs},
		{ebpf.SkMsg, asm.FnRingbufOutput},
		{ebpf.SkSKB, asm.FnSkRedirectHash},
		{ebpf.SkSKB, asm.FnSkbPullData},
		{ebpf.SkSKB, asm.FnGetSocketCookie},
		{ebpf.SkSKB, asm.FnLoop},
		{ebpf.SockOps, asm.FnSockHashUpdate},
		{ebpf.SockOps, asm.FnSetsockopt},
	}
)

func haveHelper(h helper) error { return features.HaveProgramHelper(h.kind, h.fn) }

// mapKind is a type of map, or an array that user space can map into its memory.
type mapKind struct {
	kind     ebpf.MapType
	mappable bool
}

func (m mapKind) String() string {
	if m.mappable {
		return "mappable " + m.kind.String()
	}
	return m.kind.String()
}

var (
	interceptionMaps = []mapKind{
		{kind: ebpf.Array, mappable: true}, {kind: ebpf.Hash}, {kind: ebpf.LRUHash}, {kind: ebpf.PerCPUArray}, {kind: ebpf.SkStorage},
		// The daemon waits by it for programs that run, too (bpfmap.SynchronizeRCU).
		{kind: ebpf.ArrayOfMaps},
	}
	fastMaps = []mapKind{{kind: ebpf.SockHash}, {kind: ebpf.LPMTrie}, {kind: ebpf.ProgramArray}, {kind: ebpf.RingBuf}}
)

func haveMap(m mapKind) error {
	if m.mappable {
		return features.HaveMapFlag(features.BPF_F_MMAPABLE)
	}
	return features.HaveMapType(m.kind)
}

// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"math"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
)

// Offset of the TCP flags in a frame with IPv4, and the flag of a SYN.
const (
	frameTCPFlags = 14 + 20 + 13
	flagSYN       = 2
)

// LoseData makes the wire to one of two hosts lose one in so many of the packets that come to it, at random, but for those that open a
// connection.
func (p *Place) LoseData(t testing.TB, oneIn int32) {
	t.Helper()
	p.lose(t, oneIn, math.MaxInt32)
}

// LoseAcknowledgements does it to packets that carry little or no data.
func (p *Place) LoseAcknowledgements(t testing.TB, oneIn int32) {
	t.Helper()
	const little = 120
	p.lose(t, oneIn, little)
}

func (p *Place) lose(t testing.TB, oneIn, below int32) {
	t.Helper()
	// What a tc program may answer.
	const next, drop = -1, 2
	// The length of the packet is the first word of the context, which LoadAbs expects in R6.
	lose, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "lose",
		Type: ebpf.SchedCLS,
		Instructions: asm.Instructions{
			asm.Mov.Reg(asm.R6, asm.R1),
			asm.LoadMem(asm.R7, asm.R6, 0, asm.Word),
			asm.JGE.Imm32(asm.R7, below, "keep"),
			asm.LoadAbs(frameTCPFlags, asm.Byte),
			asm.JSet.Imm32(asm.R0, flagSYN, "keep"),
			asm.FnGetPrandomU32.Call(),
			asm.Mod.Imm32(asm.R0, oneIn),
			asm.JNE.Imm32(asm.R0, 0, "keep"),
			asm.Mov.Imm(asm.R0, drop),
			asm.Return(),
			asm.Mov.Imm(asm.R0, next).WithSymbol("keep"),
			asm.Return(),
		},
	})
	if err != nil {
		t.Fatalf("load a program that loses packets: %v", err)
	}
	defer lose.Close()
	var attached link.Link
	p.inside(t, func() error {
		wire, err := netlink.LinkByName("wire")
		if err != nil {
			return err
		}
		attached, err = link.AttachTCX(link.TCXOptions{Interface: wire.Attrs().Index, Program: lose, Attach: ebpf.AttachTCXIngress})
		return err
	})
	t.Cleanup(func() {
		if err := attached.Close(); err != nil {
			t.Error(err)
		}
	})
}

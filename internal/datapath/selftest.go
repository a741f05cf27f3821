// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/internal/lpm"
	"github.com/xlb-project/xlb/internal/maps"
)

// selftest is a head and what the parser must find in it.
type selftest struct {
	head    string
	verdict maps.Verdict
	// phase is what follows a response's head.
	phase maps.Phase
}

// requestTests and responseTests touch every kind of answer; the tests of this package hold many more.
var (
	requestTests = []selftest{
		{head: "GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
		{head: "POST /a?b=c HTTP/1.1\r\nhost: a.b:80\r\nContent-Length: 12\r\nUser-Agent: " + strings.Repeat("x", 300) + "\r\n\r\n"},
		{head: "GET / HTTP/1.1\r\nHost: a\r\n", verdict: maps.HandoverPartialHead},
		{head: "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{head: "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", verdict: maps.HandoverTransferCoding},
		{head: "GET / HTTP/1.1\r\nHost : a\r\n\r\n", verdict: maps.HandoverMalformed},
		{head: "GET / HTTP/1.0\r\nHost: a\r\n\r\n", verdict: maps.HandoverNotHTTP11},
	}
	responseTests = []selftest{
		{head: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", phase: maps.PhaseLength},
		{head: "HTTP/1.1 100 Continue\r\n\r\n", phase: maps.PhaseHead},
		{head: "HTTP/1.1 204 No Content\r\n\r\n", phase: maps.PhaseDone},
		{head: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", phase: maps.PhaseChunkSize},
		{head: "HTTP/1.1 200 OK\r\n\r\n", verdict: maps.VerdictSpillFraming},
	}
)

// selfTest runs the parser, as this kernel has compiled it, on heads whose meaning is known, and tries what maps depend on.
func (d *Datapath) selfTest() error {
	if err := d.tryKernel(); err != nil {
		return &wrongKernelError{err}
	}
	return nil
}

func (d *Datapath) tryKernel() error {
	if err := lpm.Check(); err != nil {
		return fmt.Errorf("test the maps of this kernel: %w: it would mix up connections of the slow path with those of the fast path; use --fast-path=off, or another kernel", err)
	}
	for _, t := range requestTests {
		if err := t.check(d.fast.SelftestRequest, len(t.head)); err != nil {
			return err
		}
	}
	for _, t := range responseTests {
		if err := t.check(d.fast.SelftestResponse, int(t.phase)<<16|len(t.head)); err != nil {
			return err
		}
	}
	return nil
}

func (t *selftest) check(p *ebpf.Program, found int) error {
	verdict, rest, err := runSelftest(p, t.head)
	if err != nil {
		return fmt.Errorf("test the parser on this kernel: %w", err)
	}
	if verdict != t.verdict || verdict == maps.VerdictOk && rest != found {
		return fmt.Errorf("test the parser on this kernel: %q gives %s and %#x, want %s and %#x: its verifier has compiled "+
			"the parser wrongly; use --fast-path=off, or another kernel",
			t.head, maps.VerdictName(verdict), rest, maps.VerdictName(t.verdict), found)
	}
	return nil
}

func runSelftest(p *ebpf.Program, head string) (verdict maps.Verdict, rest int, err error) {
	result, err := p.Run(&ebpf.RunOptions{Data: maps.Packet([]byte(head))})
	return maps.Verdict(result >> 24), int(result & 0xffffff), err
}

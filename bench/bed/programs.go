// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/figures"
)

// instructionSize is that of an instruction of eBPF in bytes.
const instructionSize = 8

// account is the kernel's of one program.
type account struct {
	name string
	runs uint64
	time time.Duration
	// instructions and bytes are the program's length, translated and compiled.
	instructions, bytes int
}

// programAccounts reads those of all programs of the machine, by their id.
func programAccounts() (map[ebpf.ProgramID]account, error) {
	accounts := map[ebpf.ProgramID]account{}
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, fs.ErrNotExist) {
			return accounts, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list kernel programs: %w", err)
		}
		id = next
		if a, ok := accountOf(id); ok {
			accounts[id] = a
		}
	}
}

// accountOf has none of a program that is gone.
func accountOf(id ebpf.ProgramID) (account, bool) {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return account{}, false
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return account{}, false
	}
	stats, err := p.Stats()
	if err != nil {
		return account{}, false
	}
	// Missing lengths are no reason to have no account.
	translated, _ := info.TranslatedSize()
	jited, _ := info.JitedSize()
	return account{name: info.Name, runs: stats.RunCount, time: stats.Runtime, instructions: translated / instructionSize, bytes: int(jited)}, true
}

// programCosts makes the load once more, with the kernel keeping account of each run of a program, which costs time: the figures of the
// turn are taken before. Programs that were there before the peer are left out.
func (b *Bed) programCosts(ctx context.Context, l cases.Load, targets []netip.AddrPort, path string, d time.Duration) (costs []figures.ProgramCost, err error) {
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		return nil, fmt.Errorf("have the kernel keep account of its programs: %w", err)
	}
	defer func() { err = errors.Join(err, stats.Close()) }()
	before, err := programAccounts()
	if err != nil {
		return nil, err
	}
	report, err := b.generate(ctx, l, targets, path, d)
	if err != nil {
		return nil, err
	}
	after, err := programAccounts()
	if err != nil {
		return nil, err
	}
	for id := range b.foreign {
		delete(after, id)
	}
	return costsOf(before, after, report.Requests), nil
}

// costsOf has the dearest first; programs of one name are one, as long as the longest. Those that others call (tail calls) have no runs of their own.
func costsOf(before, after map[ebpf.ProgramID]account, requests int64) []figures.ProgramCost {
	total := map[string]account{}
	for id, a := range after {
		then := before[id]
		sum := total[a.name]
		sum.instructions, sum.bytes = max(sum.instructions, a.instructions), max(sum.bytes, a.bytes)
		sum.runs += a.runs - then.runs
		sum.time += a.time - then.time
		total[a.name] = sum
	}
	var costs []figures.ProgramCost
	for name, a := range total {
		if requests == 0 {
			continue
		}
		costs = append(costs, figures.ProgramCost{
			Name: name, Runs: float64(a.runs) / float64(requests), Instructions: a.instructions, Bytes: a.bytes,
			NSPerRun: float64(a.time) / float64(max(a.runs, 1)), NSPerRequest: float64(a.time) / float64(requests),
		})
	}
	slices.SortFunc(costs, func(x, y figures.ProgramCost) int {
		return cmp.Or(cmp.Compare(y.NSPerRequest, x.NSPerRequest), cmp.Compare(x.Name, y.Name))
	})
	return costs
}

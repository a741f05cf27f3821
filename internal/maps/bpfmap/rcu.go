// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
)

// SynchronizeRCU returns when every kernel program that was running at the call has ended: no program uses what
// was unlinked from the maps before. It takes a grace period of RCU, and CAP_BPF at the first call.
//
// It puts a map into an array of maps. Since 4.20 the kernel promises for that call that all programs which could have found what lay there
// before have ended when it returns (maybe_wait_bpf_programs of kernel/bpf/syscall.c). It keeps that by synchronize_rcu(), or the expedited form of
// it: both wait for the read sides of RCU, on any number of processors, and for those that were preempted. The kernel runs each program of ours in
// one (6.6 to 6.18):
//
//   - sk_msg: sk_psock_msg_verdict takes rcu_read_lock around the program, and sk_skb: sk_psock_verdict_recv;
//   - sock_ops and programs of cgroups: bpf_prog_run_array_cg;
//   - socket filters: sk_filter_trim_cap;
//   - tp_btf: __bpf_trace_run. What the tracepoint itself holds besides, preemption or SRCU, differs and does not matter;
//   - those that the daemon calls itself, of type tc: bpf_test_run.
//
// Programs that may sleep are not waited for. One of ours is of such a type (xlb_whoami), and it knows no map.
//
// membarrier(MEMBARRIER_CMD_GLOBAL) is synchronize_rcu() too, but not with one processor online: there it returns at once, and a program may
// have been preempted if the kernel preempts itself. Where nohz_full is used it fails.
func SynchronizeRCU() error {
	outer, inner, err := forRCU.get()
	if err == nil {
		err = outer.Put(uint32(0), inner)
	}
	if err != nil {
		return fmt.Errorf("wait for running programs: %w", withRemedy(err))
	}
	return nil
}

// forRCU has the maps of SynchronizeRCU, which live as long as the process. No program knows them.
var forRCU nestedMaps

// nestedMaps are a map and the array of maps that it lies in.
type nestedMaps struct {
	mu           sync.Mutex
	outer, inner *ebpf.Map
}

// get makes them once. After an error the next call tries again.
func (n *nestedMaps) get() (outer, inner *ebpf.Map, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.outer != nil {
		return n.outer, n.inner, nil
	}
	spec := &ebpf.MapSpec{Name: "xlb_settled", Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}
	if inner, err = ebpf.NewMap(spec); err != nil {
		return nil, nil, err
	}
	outer, err = ebpf.NewMap(&ebpf.MapSpec{Name: "xlb_settling", Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 1, InnerMap: spec})
	if err != nil {
		return nil, nil, errors.Join(err, inner.Close())
	}
	n.outer, n.inner = outer, inner
	return outer, inner, nil
}

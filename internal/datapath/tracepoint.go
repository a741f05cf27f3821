// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// sendTracepoint is where the kernel says how many bytes a send has taken.
const sendTracepoint = "sock_send_length"

// requireTracepoint says in words what the library would say by the name of a type.
func requireTracepoint(name string) error {
	types, err := btf.LoadKernelSpec()
	if err != nil {
		return fmt.Errorf("read the kernel's types: %w", err)
	}
	var t *btf.Typedef
	if err := types.TypeByName("btf_trace_"+name, &t); err != nil {
		return fmt.Errorf("tracepoint %s, which tells how much of a send was taken, is not in this kernel; Linux 6.3 or later has it: %w", name, ebpf.ErrNotSupported)
	}
	return nil
}

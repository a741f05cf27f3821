// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/internal/maps/bpfmap"
)

// anchors is the map of anchor ports. It has one writer at a time.
type anchors struct {
	bpfmap.Table[uint64, AnchorPorts]
	m *ebpf.Map
}

func newAnchors(m *ebpf.Map) bpfmap.Table[uint64, AnchorPorts] {
	return anchors{Table: bpfmap.NewTable[uint64, AnchorPorts]("anchors", m), m: m}
}

// Put implements bpfmap.Table. It writes in place where the view alone changes: see struct anchor_ports in bpf/lib/abi.h.
func (t anchors) Put(netns uint64, ports AnchorPorts) error {
	known, found, err := t.Lookup(netns)
	if err != nil {
		return err
	}
	known.View = ports.View
	if !found || known != ports {
		return t.Table.Put(netns, ports)
	}
	if err := t.m.Update(&netns, &ports, ebpf.UpdateExist|ebpf.UpdateLock); err != nil {
		return fmt.Errorf("change the view of a network namespace in map anchors: %w", err)
	}
	return nil
}

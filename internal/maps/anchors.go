// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/internal/maps/bpfmap"
)

// anchors is the map of anchor ports. It has one writer at a time.
type anchors struct {
	bpfmap.Table[uint64, AnchorPorts]
	m, strangers *ebpf.Map
}

func newAnchors(m, strangers *ebpf.Map) bpfmap.Table[uint64, AnchorPorts] {
	return anchors{Table: bpfmap.NewTable[uint64, AnchorPorts]("anchors", m), m: m, strangers: strangers}
}

// Delete implements bpfmap.Table. The next connection of the network namespace is reported, however short a time ago the one was by which it has come here.
func (t anchors) Delete(netns uint64) error {
	err := t.Table.Delete(netns)
	if forget := t.strangers.Delete(&netns); forget != nil && !errors.Is(forget, ebpf.ErrKeyNotExist) {
		err = errors.Join(err, fmt.Errorf("forget the report of a network namespace in map strangers: %w", forget))
	}
	return err
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

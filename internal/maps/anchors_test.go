// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
)

// A network namespace that leaves may be back at once: its next connection is to be reported, whenever the last report was.
func TestReportOfANamespaceIsForgottenWhenItLeaves(t *testing.T) {
	newHash := func(value uint32) *ebpf.Map {
		m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: value, MaxEntries: 4})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		return m
	}
	strangers := newHash(8)
	anchors := newAnchors(newHash(uint32(unsafe.Sizeof(AnchorPorts{}))), strangers)
	for _, netns := range []uint64{7, 8} {
		if err := errors.Join(anchors.Put(netns, AnchorPorts{Workload: 1}), strangers.Put(netns, uint64(1))); err != nil {
			t.Fatal(err)
		}
	}
	// The second time there is no report.
	for range 2 {
		if err := anchors.Delete(7); err != nil {
			t.Error(err)
		}
	}
	var at uint64
	if err := strangers.Lookup(uint64(7), &at); !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Errorf("got %v, want no report of the one that has left", err)
	}
	if err := strangers.Lookup(uint64(8), &at); err != nil {
		t.Errorf("the other one's: %v", err)
	}
}

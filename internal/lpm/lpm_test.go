// SPDX-License-Identifier: Apache-2.0

package lpm

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

func TestThisKernelsTriesAreAsNeeded(t *testing.T) {
	if err := Check(); err != nil {
		t.Error(err)
	}
}

// simulated is a trie for whole keys and one prefix of 24 bits, with the defects of some kernels.
type simulated struct {
	entries map[key]uint32
	counted int
	// ignoresFlags: an entry is put whatever the flags ask.
	ignoresFlags bool
	// refusesFull: what is there cannot be changed when there is no room.
	refusesFull bool
	// countsChanged: an entry that is changed counts once more.
	countsChanged bool
	// countsDeleted: an entry that is deleted goes on counting.
	countsDeleted bool
}

func (s *simulated) Update(k, v any, flags ebpf.MapUpdateFlags) error {
	_, there := s.entries[k.(key)]
	switch {
	case s.refusesFull && s.counted == room:
		return unix.ENOSPC
	case there && flags == ebpf.UpdateNoExist && !s.ignoresFlags:
		return ebpf.ErrKeyExist
	case !there && flags == ebpf.UpdateExist && !s.ignoresFlags:
		return ebpf.ErrKeyNotExist
	case !there && s.counted >= room:
		return unix.ENOSPC
	}
	if !there || s.countsChanged {
		s.counted++
	}
	s.entries[k.(key)] = v.(uint32)
	return nil
}

func (s *simulated) Lookup(k, v any) error {
	value, there := s.entries[k.(key)]
	if !there && covers(common, k.(key)) {
		value, there = s.entries[common]
	}
	if !there {
		return ebpf.ErrKeyNotExist
	}
	*v.(*uint32) = value
	return nil
}

func (s *simulated) Delete(k any) error {
	if _, there := s.entries[k.(key)]; !there {
		return ebpf.ErrKeyNotExist
	}
	delete(s.entries, k.(key))
	if !s.countsDeleted {
		s.counted--
	}
	return nil
}

func TestTriesWithDefectsAreFound(t *testing.T) {
	for _, tt := range []struct {
		name string
		trie simulated
		want string
	}{
		{"none", simulated{}, ""},
		{"flags are passed over", simulated{ignoresFlags: true}, "LPM tries: BPF_EXIST without an entry: got success, want key does not exist"},
		{"nothing can be changed without room", simulated{refusesFull: true}, "LPM tries: BPF_NOEXIST at a branch with an entry: got no space left on device, want key already exists"},
		{"a changed entry counts twice", simulated{countsChanged: true}, "LPM tries: a second entry: got no space left on device, want success"},
		{"a deleted entry counts", simulated{countsDeleted: true}, "LPM tries: the last entry that there is room for: got no space left on device, want success"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.trie.entries = map[key]uint32{}
			err := run(&tt.trie)
			if tt.want == "" && err == nil {
				return
			}
			if err == nil || tt.want == "" || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

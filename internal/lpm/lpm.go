// SPDX-License-Identifier: Apache-2.0

// Package lpm tries out the kernel's tries of longest prefixes. Maps that kernel programs and daemon write together are such tries, and count on
// what the manual says of their flags. There are kernels that pass over BPF_EXIST and BPF_NOEXIST, and that refuse to change an entry of a trie that is
// full: versions do not tell which, since both has been mended in older series too.
package lpm

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// key is struct bpf_lpm_trie_key: so many bits, the first byte's first.
type key struct {
	Bits uint32
	Data [4]byte
}

// room is how many entries the trie that is tried can have.
const room = 3

// trie is what is tried of a map.
type trie interface {
	Update(key, value any, flags ebpf.MapUpdateFlags) error
	Lookup(key, value any) error
	Delete(key any) error
}

// step is one call, and what must come of it.
type step struct {
	what string
	key  key
	// delete in place of an update with flags.
	delete bool
	flags  ebpf.MapUpdateFlags
	// want is the error; nil for none.
	want error
}

var (
	first  = key{32, [4]byte{10, 0, 0, 1}}
	second = key{32, [4]byte{10, 0, 0, 129}}
	third  = key{32, [4]byte{192, 0, 0, 1}}
	fourth = key{32, [4]byte{10, 0, 0, 2}}
	// common is a prefix of the first and the second, at which a trie branches without having an entry there.
	common = key{24, [4]byte{10, 0, 0, 0}}
)

var steps = []step{
	{what: "BPF_EXIST without an entry", key: first, flags: ebpf.UpdateExist, want: ebpf.ErrKeyNotExist},
	{what: "BPF_NOEXIST without an entry", key: first, flags: ebpf.UpdateNoExist},
	{what: "BPF_NOEXIST with an entry", key: first, flags: ebpf.UpdateNoExist, want: ebpf.ErrKeyExist},
	{what: "BPF_EXIST with an entry", key: first, flags: ebpf.UpdateExist},
	{what: "BPF_ANY with an entry", key: first, flags: ebpf.UpdateAny},
	{what: "BPF_EXIST beside another entry", key: second, flags: ebpf.UpdateExist, want: ebpf.ErrKeyNotExist},
	{what: "a second entry", key: second, flags: ebpf.UpdateNoExist},
	{what: "BPF_EXIST at a branch without an entry", key: common, flags: ebpf.UpdateExist, want: ebpf.ErrKeyNotExist},
	{what: "BPF_NOEXIST at a branch without an entry", key: common, flags: ebpf.UpdateNoExist},
	{what: "BPF_NOEXIST at a branch with an entry", key: common, flags: ebpf.UpdateNoExist, want: ebpf.ErrKeyExist},
	{what: "an entry of a branch deleted", key: common, delete: true},
	{what: "the last entry that there is room for", key: third, flags: ebpf.UpdateNoExist},
	{what: "one entry more than there is room for", key: fourth, flags: ebpf.UpdateAny, want: unix.ENOSPC},
	{what: "BPF_EXIST with an entry, and no room", key: first, flags: ebpf.UpdateExist},
	{what: "BPF_ANY with an entry, and no room", key: second, flags: ebpf.UpdateAny},
	{what: "BPF_NOEXIST with an entry, and no room", key: second, flags: ebpf.UpdateNoExist, want: ebpf.ErrKeyExist},
	{what: "an entry deleted", key: second, delete: true},
	{what: "an entry deleted twice", key: second, delete: true, want: ebpf.ErrKeyNotExist},
	{what: "an entry in place of a deleted one", key: fourth, flags: ebpf.UpdateNoExist},
	{what: "one entry more than there is room for again", key: second, flags: ebpf.UpdateAny, want: unix.ENOSPC},
}

// Check returns an error that says what this kernel's tries do otherwise than XLB needs.
func Check() error {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.LPMTrie, KeySize: 8, ValueSize: 4, MaxEntries: room, Flags: unix.BPF_F_NO_PREALLOC})
	if err != nil {
		return fmt.Errorf("create an LPM trie: %w", err)
	}
	return errors.Join(run(m), m.Close())
}

func run(t trie) error {
	entries := map[key]uint32{}
	for i := range steps {
		s := &steps[i]
		if err := s.call(t, uint32(i)); !errors.Is(err, s.want) {
			return fmt.Errorf("LPM tries: %s: got %s, want %s", s.what, outcome(err), outcome(s.want))
		}
		if s.want == nil && s.delete {
			delete(entries, s.key)
		} else if s.want == nil {
			entries[s.key] = uint32(i)
		}
		if err := compare(t, entries); err != nil {
			return fmt.Errorf("LPM tries: after %s: %w", s.what, err)
		}
	}
	return nil
}

func (s *step) call(t trie, value uint32) error {
	if s.delete {
		return t.Delete(s.key)
	}
	return t.Update(s.key, value, s.flags)
}

func outcome(err error) string {
	if err == nil {
		return "success"
	}
	return err.Error()
}

// compare looks up whole keys, which are those of all entries but the branch's.
func compare(t trie, entries map[key]uint32) error {
	for _, k := range []key{first, second, third, fourth} {
		want, there := entries[k]
		if !there {
			// What covers it is what is found.
			want, there = entries[common], covers(common, k) && has(entries, common)
		}
		var got uint32
		err := t.Lookup(k, &got)
		switch {
		case !there && errors.Is(err, ebpf.ErrKeyNotExist):
		case there && err == nil && got == want:
		default:
			return fmt.Errorf("look-up of %v: got value %d, %s; want value %d, entry there: %v", k.Data, got, outcome(err), want, there)
		}
	}
	return nil
}

func has(entries map[key]uint32, k key) bool {
	_, there := entries[k]
	return there
}

// covers compares 24 bits.
func covers(prefix, k key) bool { return bytes.Equal(prefix.Data[:3], k.Data[:3]) }

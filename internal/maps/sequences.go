// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/internal/maps/bpfmap"
)

// SetSequences gives the map of what sockets are to receive next, and that of servers' sockets.
func (s *Sockets) SetSequences(sequences, ssocks *ebpf.Map) {
	s.sequences = newCookieTable[uint64]("receive_sequences", sequences)
	s.ssocks = bpfmap.NewTable[uint32, uint64]("ssocks", ssocks)
}

// ForgetSequences takes out of receive_sequences what was left there by sockets that are in no socket map any more, and says how many those were.
// The kernel programs do so themselves, but for sockets of which another program has switched off that they see changes of state: BPF_SOCK_OPS_STATE_CB_FLAG
// is one for all sock_ops programs of a socket. It reads all entries; without any it costs a call.
func (s *Sockets) ForgetSequences() (int, error) {
	if s.sequences == nil {
		return 0, nil
	}
	left, err := s.sequencesOfOthers()
	if err != nil || len(left) == 0 {
		return 0, err
	}
	// A socket is in its map before it has an entry: who is not here by now, is not there any more.
	if err := s.ssocks.Each(func(_ uint32, cookie uint64) bool { delete(left, cookie); return true }); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return 0, err
	} else if err != nil {
		// Servers came and went meanwhile: some were passed over. The next time does.
		return 0, nil
	}
	for cookie := range left {
		if err := s.sequences.Delete(cookie); err != nil {
			return 0, err
		}
	}
	return len(left), nil
}

// sequencesOfOthers are the cookies with an entry that are no p-sock's.
func (s *Sockets) sequencesOfOthers() (map[uint64]struct{}, error) {
	left := map[uint64]struct{}{}
	err := s.sequences.Each(func(cookie, _ uint64) bool {
		if !s.ClientOpen(cookie) {
			left[cookie] = struct{}{}
		}
		return true
	})
	if err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return nil, fmt.Errorf("look for what closed sockets have left: %w", err)
	}
	return left, nil
}

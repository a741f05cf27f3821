// SPDX-License-Identifier: Apache-2.0

package node

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
)

// sweepPace is how often it is looked whether closed sockets have left something in the kernel's maps, and sweepShare how much of the time that may
// take: where many sockets are on the slow path all their entries are read.
const (
	sweepPace  = time.Second
	sweepShare = 1. / 500
)

// sweeper takes out of the kernel's maps what its programs could not.
type sweeper struct {
	n *Node
	// next is when it is due, of maps.Now.
	next atomic.Int64
	told sync.Once
}

func (s *sweeper) due() bool { return s.n.o.FastPath && maps.Now() >= s.next.Load() }

func (s *sweeper) sweep() {
	begun := time.Now()
	left, err := s.n.datapath.Sockets.ForgetSequences()
	if err != nil {
		s.n.log.Warn("reclaiming entries of closed sockets failed; will retry", "err", err)
	}
	if left > 0 {
		s.told.Do(func() {
			s.n.log.Warn("closed sockets had left state in the kernel's maps, which was given up; perhaps another sock_ops program switches off " +
				"BPF_SOCK_OPS_STATE_CB_FLAG: have it set its flags beside those that are there")
		})
	}
	s.next.Store(maps.Now() + int64(float64(time.Since(begun))/sweepShare))
}

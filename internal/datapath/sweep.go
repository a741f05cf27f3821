// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
)

// SweepPace is how often it is looked whether closed sockets have left something in the kernel's maps, and sweepShare how much of the time that may
// take: where many sockets are on the slow path all their entries are read.
const (
	SweepPace  = time.Second
	sweepShare = 1. / 500
)

// Sweeper takes out of the kernel's maps what its programs could not.
type Sweeper struct {
	forget func() (left int, err error)
	log    *slog.Logger
	// next is when it is due, of maps.Now.
	next   atomic.Int64
	logged sync.Once
}

// NewSweeper sweeps the maps of d.
func (d *Datapath) NewSweeper(log *slog.Logger) *Sweeper {
	return &Sweeper{forget: d.Sockets.ForgetSequences, log: log}
}

// Due reports whether it is time to sweep. It does not wait.
func (s *Sweeper) Due() bool { return maps.Now() >= s.next.Load() }

// Sweep looks at the maps. One call at a time.
func (s *Sweeper) Sweep() {
	begun := time.Now()
	left, err := s.forget()
	if err != nil {
		s.log.Warn("reclaiming entries of closed sockets failed; will retry", "err", err)
	}
	if left > 0 {
		s.logged.Do(func() {
			s.log.Warn("closed sockets had left state in the kernel's maps, which was given up; perhaps another sock_ops program switches off " +
				"BPF_SOCK_OPS_STATE_CB_FLAG: have it set its flags beside those that are there")
		})
	}
	s.next.Store(maps.Now() + int64(float64(time.Since(begun))/sweepShare))
}

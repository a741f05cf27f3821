// SPDX-License-Identifier: Apache-2.0

package precedence

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// niceness is that of the daemon. It works little, but clients wait for it: on a machine without an idle processor it would get no more of
// the time than one of them, while it accepts the connections of all.
const niceness = -10

// Allowed reports whether the limit of this process allows the daemon's niceness without CAP_SYS_NICE (getrlimit(2)).
func Allowed() bool {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NICE, &limit)
	return err == nil && limit.Cur >= uint64(20-niceness)
}

// prioritize gives all threads of this process the daemon's niceness, and those that they start. Another one than 0 was chosen by the operator,
// and stays: then it reports false.
func prioritize() (own bool, err error) {
	if nice, err := niceOf(0); err != nil || nice != 0 {
		return false, err
	}
	return true, renice(niceness)
}

// renice gives all threads of this process that niceness.
func renice(nice int) error {
	// A thread that starts another one meanwhile may have been looked at before, or not yet.
	for {
		changed, err := reniceThreads(nice)
		if err != nil || !changed {
			return err
		}
	}
}

// reniceThreads reports whether there was a thread of another niceness.
func reniceThreads(wanted int) (changed bool, err error) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return false, fmt.Errorf("list threads: %w", err)
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			return false, fmt.Errorf("list threads: %w", err)
		}
		nice, err := niceOf(id)
		if err == nil && nice != wanted {
			changed = true
			err = unix.Setpriority(unix.PRIO_PROCESS, id, wanted)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return false, fmt.Errorf("set niceness to %d: %w", wanted, err)
		}
	}
	return changed, nil
}

// niceOf is the niceness of a thread, 0 of the calling one.
func niceOf(thread int) (int, error) {
	// The system call adds 20 and changes the sign, so that no answer is negative.
	n, err := unix.Getpriority(unix.PRIO_PROCESS, thread)
	return 20 - n, err
}

// What the daemon does for clients itself is theirs to wait for, not that of others: from so much of it on,
// in processors, the daemon has no precedence, until it is less than that again for a while.
const (
	manyProcessors = 0.25
	fewProcessors  = 0.1
	// lookPace is between two looks, calmLooks is how many in a row must find little work.
	lookPace  = 250 * time.Millisecond
	calmLooks = 4
)

// niceController takes the daemon's precedence away while it works for clients, and gives it back.
type niceController struct {
	// worked is the time of all turns so far, used that of the processors.
	worked, used func() time.Duration
	// last are what they were at the last look, at that time.
	at                   time.Time
	lastWorked, lastUsed time.Duration
	// yields: it has no precedence.
	yields atomic.Bool
	// calm are the last looks that found little work.
	calm int
}

// look reports whether the daemon is to have precedence no more, or again.
func (c *niceController) look(now time.Time) (change bool) {
	worked, used := c.worked(), c.used()
	load := 0.0
	if passed := now.Sub(c.at); !c.at.IsZero() && passed > 0 {
		// Turns take longer by the clock where the processors are busy with others; and not all that the
		// daemon does is done for clients.
		load = float64(min(worked-c.lastWorked, used-c.lastUsed)) / float64(passed)
	}
	c.at, c.lastWorked, c.lastUsed = now, worked, used
	if load >= fewProcessors {
		c.calm = 0
	} else {
		c.calm++
	}
	yields := c.yields.Load()
	change = !yields && load >= manyProcessors || yields && c.calm >= calmLooks
	if change {
		c.yields.Store(!yields)
	}
	return change
}

// target is the niceness that the daemon is to have.
func (c *niceController) target() int {
	if c.yields.Load() {
		return 0
	}
	return niceness
}

// processorTime is that of this process.
func processorTime() time.Duration {
	var u unix.Rusage
	// It fails for a wrong address alone.
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Take gives the daemon precedence while it does little for clients. worked is the time of all that it has done for them so far; every calls f at
// that pace where due reports true.
func Take(log *slog.Logger, worked func() time.Duration, every func(pace time.Duration, due func() bool, f func())) {
	own, err := prioritize()
	if err != nil {
		log.Warn("the daemon is scheduled as any other process; on a busy machine connections may wait for it", "err", err)
	}
	if err != nil || !own {
		return
	}
	c := &niceController{worked: worked, used: processorTime}
	every(lookPace, func() bool { return c.look(time.Now()) }, func() {
		if err := renice(c.target()); err != nil {
			log.Warn("the daemon keeps the precedence that it has", "err", err)
		}
	})
}

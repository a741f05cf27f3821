// SPDX-License-Identifier: Apache-2.0

// Package queue has servers that take a time for each request without using a processor, a few requests at a time, and clients that ask
// at random moments at a given rate, whatever the answers take. Both serve to see how evenly a balancer spreads what is under way.
package queue

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// timer waits without a processor, and wakes within microseconds; Go's own timers round up to milliseconds when nothing else happens. It has one user
// at a time.
type timer struct {
	file *os.File
	fd   int
	read [8]byte
}

func newTimer() (*timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create a timer: %w", err)
	}
	return &timer{file: os.NewFile(uintptr(fd), "timer"), fd: fd}, nil
}

// wait returns when the time is over, at once when there is none to wait.
func (t *timer) wait(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}
	if err := unix.TimerfdSettime(t.fd, 0, &spec, nil); err != nil {
		return fmt.Errorf("set a timer: %w", err)
	}
	_, err := t.file.Read(t.read[:])
	return err
}

func (t *timer) close() error { return t.file.Close() }

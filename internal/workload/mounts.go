// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// mountTable is that of this process's mount namespace, which all its threads share.
const mountTable = "/proc/self/mountinfo"

// newMountWatch sends when something has been mounted or unmounted in the mount namespace of this process, until stop is called, and once or twice at the
// start. A send that has not been received stands for those behind it. Files and links that are made or removed are no changes of mounts.
func newMountWatch(logger *slog.Logger) (changed <-chan struct{}, stop func(), err error) {
	fd, err := unix.Open(mountTable, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("watch mounts: %w", &os.PathError{Op: "open", Path: mountTable, Err: err})
	}
	// One that does not block is watched by the runtime's own poller: no thread waits for mounts.
	table := os.NewFile(uintptr(fd), mountTable)
	raw, err := table.SyscallConn()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("watch mounts: %w", err), table.Close())
	}
	c, done := make(chan struct{}, 1), make(chan struct{})
	var stopped atomic.Bool
	go func() {
		defer close(done)
		if err := sendWakeups(raw, c); !stopped.Load() {
			logger.Error("mounts are not watched any more: network namespaces that get a name are served with their first connection", "err", err)
		}
	}()
	return c, func() { stopped.Store(true); table.Close(); <-done }, nil
}

// sendWakeups sends each time that the runtime's poller finds the table changed, until it is closed.
//
// It is one read that does not end, since the runtime forgets wake-ups between two. The table is readable at all times, but the runtime takes edges alone: one
// at the start, and one with each change. A poll takes the change from the table, so that a second one does not find it: package poller would lose changes,
// because the runtime polls what is in its epoll descriptor before it does.
func sendWakeups(table syscall.RawConn, c chan<- struct{}) error {
	return table.Read(func(uintptr) (isOver bool) {
		select {
		case c <- struct{}{}:
		default: // it has yet to be received
		}
		return false
	})
}

// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// TraceSpec names a process that is to be traced. It may not be a child of who traces.
type TraceSpec struct{ PID int }

// Trace attaches to each thread, stops it, and lets it go on.
func Trace(spec TraceSpec) error {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", spec.PID))
	if err != nil {
		return err
	}
	// A tracer is a thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, t := range threads {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		if err := traceOnce(tid); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("trace thread %d: %w", tid, err)
		}
	}
	return nil
}

// traceOnce returns ESRCH for a thread that has ended.
func traceOnce(tid int) error {
	if err := unix.PtraceSeize(tid); err != nil {
		return err
	}
	if err := unix.PtraceInterrupt(tid); err != nil {
		return err
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(tid, &status, unix.WALL, nil); err != nil {
		return err
	}
	if status.Exited() || status.Signaled() {
		return unix.ESRCH
	}
	return unix.PtraceDetach(tid)
}

// SPDX-License-Identifier: Apache-2.0

package check

import "golang.org/x/sys/unix"

// Of linux/membarrier.h.
const (
	membarrierQuery  = 0
	membarrierGlobal = 1 << 0
)

// gracePeriods: the daemon waits for kernel programs that are at work on what it takes away.
func gracePeriods() Result {
	commands, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierQuery, 0, 0)
	return judgeMembarrier(int(commands), errno)
}

func judgeMembarrier(commands int, errno unix.Errno) Result {
	if errno != 0 {
		return missing("membarrier(2): "+errno.Error(), "allow membarrier in the seccomp profile, or boot a kernel with CONFIG_MEMBARRIER=y")
	}
	if commands&membarrierGlobal == 0 {
		return missing("membarrier(2) does not wait for all processors", "boot without nohz_full")
	}
	return ok("membarrier")
}

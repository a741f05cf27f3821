// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// membarrierGlobal is MEMBARRIER_CMD_GLOBAL of linux/membarrier.h: it waits for an RCU grace period.
const membarrierGlobal = 1

// Settle returns when every kernel program that was running at the call has ended: what was unlinked from the maps
// before is then used by nobody.
func Settle() error {
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0); errno != 0 {
		return fmt.Errorf("wait for running programs: membarrier: %w", errno)
	}
	return nil
}

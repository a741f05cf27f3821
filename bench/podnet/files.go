// SPDX-License-Identifier: Apache-2.0

package podnet

import (
	"fmt"
	"syscall"
)

// wantedFiles is how many files XLB's unit for systemd lets it have open (LimitNOFILE).
const wantedFiles = 262144

// raiseFiles lets this process and what it starts have so many files open, where it may, and returns how many it may have. XLB's tables that pods share are
// as large as that allows.
func raiseFiles() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("read the limit of open files (RLIMIT_NOFILE): %w", err)
	}
	if limit.Max >= wantedFiles {
		limit.Cur = max(limit.Cur, wantedFiles)
		return limit.Cur, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	}
	more := syscall.Rlimit{Cur: wantedFiles, Max: wantedFiles}
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &more) == nil {
		return wantedFiles, nil
	}
	// Without CAP_SYS_RESOURCE the limit stays what it is; the report says so.
	limit.Cur = limit.Max
	return limit.Cur, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}

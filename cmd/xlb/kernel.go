// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/internal/datapath"
)

// explained turns an error that the kernel gave to a starting daemon into one line for a person: what was refused, why,
// and what to do. Other errors, which say that themselves, it returns as they are.
func explained(err error, fastPath, privileged bool) error {
	switch {
	case isOfDescriptors(err):
		return fmt.Errorf("too few descriptors are allowed to start: %s; raise the limit (ulimit -n %d, or LimitNOFILE=%[2]d in the unit), and see: xlb check", oneLine(err), check.RecommendedFiles)
	case errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("too little memory is allowed to start: %s; the kernel's maps are charged to the daemon's cgroup: raise its limit (memory.max, or MemoryMax= in the unit) to %d MiB or more",
			oneLine(err), check.LeastMemory>>20)
	case isOfFile(err):
		return err
	case datapath.Unsupported(err) && privileged && fastPath:
		return fmt.Errorf("kernel %s lacks what the fast path needs: %s; start with --fast-path=off, and see: xlb check", check.KernelRelease(), oneLine(err))
	case datapath.Unsupported(err) && privileged:
		return fmt.Errorf("kernel %s lacks what XLB needs: %s; boot another, and see: xlb check", check.KernelRelease(), oneLine(err))
	case errors.Is(err, fs.ErrPermission), datapath.Unsupported(err):
		// The verifier refuses much of what it would allow to CAP_PERFMON.
		return fmt.Errorf("XLB needs root (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON); the kernel refused: %s; see: xlb check", oneLine(err))
	}
	return err
}

// isOfDescriptors reports whether this process may open no more. The library that loads programs does not wrap each such error.
func isOfDescriptors(err error) bool {
	return errors.Is(err, unix.EMFILE) || strings.HasSuffix(err.Error(), unix.EMFILE.Error())
}

// isOfFile reports whether an error is about a file or an address, whose own permissions may be what is missing.
func isOfFile(err error) bool {
	var path *fs.PathError
	var listen *admin.ListenError
	return errors.As(err, &path) || errors.As(err, &listen)
}

// oneLine is an error without line breaks, and without the library's guess at a limit that is raised already.
func oneLine(err error) string {
	const guess = " (MEMLOCK may be too low, consider rlimit.RemoveMemlock)"
	return strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), guess, "")), " ")
}

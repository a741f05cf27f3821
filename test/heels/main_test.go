// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/heels/traffic"
)

// trafficCommand as first argument makes a client or a server of this program.
const trafficCommand = "heels-traffic"

// apartVariable is set for the process that has a mount namespace of its own.
const apartVariable = "XLB_HEELS_APART"

// pins is where the BPF file system is, for the tests alone.
const pins = "/sys/fs/bpf"

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == trafficCommand {
		if err := traffic.Main(context.Background(), os.Args[2], os.Args[3], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// The janitor of package harness is this program, too, and needs nothing more.
	if os.Getenv(apartVariable) != "" {
		os.Exit(harness.Main(m))
	}
	os.Exit(apart())
}

// apart runs the tests in a mount namespace with a BPF file system: pins go with the last process of the test, however it ends.
func apart() int {
	// The child goes with this thread.
	runtime.LockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), apartVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return max(ended.ExitCode(), 1)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "start in a mount namespace (run as root): %v\n", err)
		return 1
	}
	return 0
}

// mountPins mounts the BPF file system; what agents pin is in it.
func mountPins(t testing.TB) {
	t.Helper()
	var f unix.Statfs_t
	if err := unix.Statfs(pins, &f); err == nil && f.Type == unix.BPF_FS_MAGIC && os.Getenv(apartVariable) == "mounted" {
		return
	}
	must(t, unix.Mount("bpf", pins, "bpf", 0, ""))
	must(t, os.Setenv(apartVariable, "mounted"))
}

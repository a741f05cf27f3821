// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/violation"
)

// Main is TestMain: it becomes a program when the test started it as one, and
// otherwise runs the tests and fails when they leave anything behind.
func Main(m *testing.M) int {
	if programs.Selected() {
		return programs.Main()
	}
	end, err := prepare()
	if err != nil {
		fmt.Fprintf(os.Stderr, "end-to-end tests: %v\n", err)
		return 1
	}
	code := m.Run()
	if err := end(); err != nil {
		// No test has failed for it.
		fmt.Fprintln(os.Stderr, violation.Text("end-to-end tests: %v", err))
		return 1
	}
	return code
}

// prepare makes room for ten thousand connections and starts the janitor,
// which cleans up even after a panic or a time-out.
func prepare() (end func() error, err error) {
	if os.Getuid() != 0 {
		return nil, fmt.Errorf("they attach programs to cgroups and make network namespaces: run them as root")
	}
	root, err := cgroupRoot()
	if err != nil {
		return nil, err
	}
	if err := raiseDescriptors(); err != nil {
		return nil, err
	}
	scratch := filepath.Join(os.TempDir(), prefix+"scratch")
	if err := os.Mkdir(scratch, 0o755); err != nil {
		return nil, err
	}
	if err := os.Setenv("TMPDIR", scratch); err != nil {
		return nil, err
	}
	return startJanitor(programs.JanitorSpec{
		Cgroups:     filepath.Join(root, prefix+"*"),
		Directories: scratch,
		Limits:      filepath.Join(v1Root, "*", prefix+"limit-*"),
	})
}

// raiseDescriptors raises the limit of descriptors for this process and its
// children as far as it may.
func raiseDescriptors() error {
	// The crowd of ten thousand connections, and as many i-socks at worst.
	const wanted, needed = 65536, 12000
	// Through package syscall, because only then children inherit it.
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: wanted, Max: wanted}) == nil {
		return nil
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of descriptors: %w", err)
	}
	if limit.Max < needed {
		return fmt.Errorf("the limit of descriptors is %d and cannot be raised: the tests need %d; set it with ulimit -n", limit.Max, needed)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("raise the limit of descriptors to %d: %w", limit.Max, err)
	}
	return nil
}

// startJanitor returns a function that lets the janitor work, and fails when
// it found a cgroup.
func startJanitor(spec programs.JanitorSpec) (end func() error, err error) {
	janitor := exec.Command("/proc/self/exe")
	janitor.Env = append(os.Environ(), programs.Variable+"="+programs.JanitorProgram)
	// A session of its own, so that an interrupt from the terminal spares it.
	janitor.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := janitor.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := janitor.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := janitor.Start(); err != nil {
		return nil, fmt.Errorf("start the janitor: %w", err)
	}
	if err := json.NewEncoder(in).Encode(spec); err != nil {
		return nil, fmt.Errorf("instruct the janitor: %w", err)
	}
	return func() error {
		if err := in.Close(); err != nil {
			return err
		}
		var report programs.JanitorReport
		if err := json.NewDecoder(out).Decode(&report); err != nil {
			return fmt.Errorf("answer of the janitor: %w", err)
		}
		if err := janitor.Wait(); err != nil {
			return fmt.Errorf("janitor: %w", err)
		}
		for _, removed := range report.Removed {
			if removed != spec.Directories {
				return fmt.Errorf("the tests left %s behind", removed)
			}
		}
		return nil
	}, nil
}

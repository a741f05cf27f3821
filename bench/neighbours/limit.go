// SPDX-License-Identifier: Apache-2.0

package neighbours

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// v1CPU is where hybrid hosts have the cpu controller of cgroup v1.
const v1CPU = "/sys/fs/cgroup/cpu"

// period of the limit in microseconds: Kubernetes' own.
const period = 100_000

// limit is one of processor time, for a pod.
type limit struct {
	// dir is a cgroup of v1 that processes join, empty where the pod's own has the limit.
	dir string
	// How says which one it is; empty: nothing has it, and the pod takes what the machine gives.
	how string
	// processors are how many a process may use, the machine's last; 0: all.
	processors int
}

// within returns a command that has the limit from its first instruction on.
func (l limit) within(command []string) []string {
	if l.processors > 0 && l.processors < runtime.NumCPU() {
		last := runtime.NumCPU() - 1
		command = append([]string{"/usr/bin/taskset", "-c", fmt.Sprintf("%d-%d", last-l.processors+1, last)}, command...)
	}
	if l.dir != "" {
		command = append([]string{"/bin/sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, l.dir}, command...)
	}
	return command
}

// newLimit limits the pod above a container's cgroup of v2, to so many hundredths of a processor; 0: to nothing.
func newLimit(mount, container string, hundredths int) (l limit, err error) {
	if hundredths == 0 {
		return l, nil
	}
	quota := period * hundredths / 100
	if _, err := os.Stat(filepath.Join(v1CPU, "cpu.cfs_quota_us")); err == nil {
		l = limit{dir: filepath.Join(v1CPU, strings.TrimSuffix(prefix, "-")), how: "cgroup v1"}
		if err := os.Mkdir(l.dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return limit{}, err
		}
		return l, write(l.dir, map[string]string{"cpu.cfs_period_us": fmt.Sprint(period), "cpu.cfs_quota_us": fmt.Sprint(quota)})
	}
	pod := filepath.Dir(container)
	if !giveCPU(mount, filepath.Dir(pod)) {
		return limit{}, nil
	}
	return limit{how: "cgroup v2"}, write(pod, map[string]string{"cpu.max": fmt.Sprintf("%d %d", quota, period)})
}

// giveCPU gives the cpu controller to what is below a cgroup, from the mount on; false: this machine does not.
func giveCPU(mount, to string) bool {
	below, err := filepath.Rel(mount, to)
	if err != nil {
		return false
	}
	dir := mount
	for _, name := range append([]string{"."}, strings.Split(below, "/")...) {
		dir = filepath.Join(dir, name)
		if err := write(dir, map[string]string{"cgroup.subtree_control": "+cpu"}); err != nil {
			return false
		}
	}
	return true
}

func write(dir string, files map[string]string) error {
	for name, value := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value+"\n"), 0); err != nil {
			return err
		}
	}
	return nil
}

// remove removes the cgroup of v1, whose processes have ended.
func (l limit) remove() error {
	if l.dir == "" {
		return nil
	}
	if err := os.Remove(l.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

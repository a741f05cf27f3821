// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxLevels bounds how many levels below a balanced cgroup are looked at. Each holds a descriptor while those below it are read.
	maxLevels = 64
	// maxNamed bounds the errors that are named: who makes cgroups decides how many there are. Each has maxShown bytes of the cgroup's path at most.
	maxNamed = 4
	maxShown = 256
)

var errTooDeep = fmt.Errorf("cgroups more than %d levels below a balanced one are not looked at", maxLevels)

// walk finds the processes of cgroups and of all below.
type walk struct {
	pids   map[int]bool
	failed failures
}

func (w *walk) cgroups(dirs []string) {
	for _, dir := range dirs {
		cgroup, err := os.OpenRoot(dir)
		if err != nil {
			w.fail(dir, err)
			continue
		}
		w.visit(cgroup, 0)
	}
}

// visit takes over a cgroup that is so many levels below the balanced one. Those below are opened relative to it: the path of one that is deep may be longer
// than the kernel takes (PATH_MAX). Where one cannot be read the others are.
func (w *walk) visit(cgroup *os.Root, level int) {
	// It was only read.
	defer func() { _ = cgroup.Close() }()
	w.readProcesses(cgroup)
	names, err := below(cgroup)
	if err != nil {
		w.fail(cgroup.Name(), err)
	}
	if level == maxLevels && len(names) > 0 {
		w.fail(cgroup.Name(), errTooDeep)
		return
	}
	for _, name := range names {
		next, err := cgroup.OpenRoot(name)
		if err != nil {
			w.fail(filepath.Join(cgroup.Name(), name), err)
			continue
		}
		w.visit(next, level+1)
	}
}

// below are the names of the cgroups in one. They may be incomplete where it fails.
func below(cgroup *os.Root) (names []string, err error) {
	dir, err := cgroup.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

// readProcesses adds those of one cgroup. A process of another pid namespace shows as 0: there is no way to its network namespace. A threaded
// cgroup has no list of its own (EOPNOTSUPP): its processes are in that of the domain above.
func (w *walk) readProcesses(cgroup *os.Root) {
	const list = "cgroup.procs"
	text, err := cgroup.ReadFile(list)
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		w.fail(filepath.Join(cgroup.Name(), list), err)
	}
	for line := range strings.Lines(string(text)) {
		if pid, err := strconv.ParseUint(strings.TrimSuffix(line, "\n"), 10, 31); err == nil && pid > 0 {
			w.pids[int(pid)] = true
		}
	}
}

// fail notes what could not be read, unless it has ended meanwhile.
func (w *walk) fail(path string, err error) {
	if isGone(err) {
		return
	}
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		// Its path is relative to the cgroup above, or long.
		err = fmt.Errorf("%s: %w", inner.Op, inner.Err)
	}
	if len(path) > maxShown {
		path = "…" + path[len(path)-maxShown:]
	}
	w.failed.add(fmt.Errorf("find processes: %s: %w", path, err))
}

// failures are what could not be looked at.
type failures struct {
	named  []error
	others int
}

// add names the error, or counts it where there are many. The first shortage is named in any case: the caller has to know of it.
func (f *failures) add(err error) {
	if len(f.named) < maxNamed || isIncomplete(err) && !isIncomplete(errors.Join(f.named...)) {
		f.named = append(f.named, err)
		return
	}
	f.others++
}

func (f *failures) err() error {
	if f.others == 0 {
		return errors.Join(f.named...)
	}
	return errors.Join(append(f.named, fmt.Errorf("and %d more", f.others))...)
}

// errNothingFound says that no process has been looked at.
var errNothingFound = errors.New("processes cannot be looked at")

// isIncomplete reports whether processes may be missing that are there: for want of descriptors or memory, which passes. Other failures are those of one
// cgroup or process, whose owner can make them last: that is no reason to serve namespaces for ever that have no process.
func isIncomplete(err error) bool {
	return errors.Is(err, errNothingFound) || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/xlb-project/xlb/test/violation"
)

// FreedWithin bounds the time until the kernel has freed what an ended process held: sockets and programs are freed after a grace period of the kernel,
// by a worker that waits for a processor like others.
const FreedWithin = 60 * time.Second

// kernelObject is a BPF object of the kernel. Identifiers are not used again soon:
// the kernel allots them in a circle of 2^31.
type kernelObject struct {
	kind string // as in /proc/PID/fdinfo: prog_id, map_id, link_id
	id   uint32
}

// gone tells whether the kernel has freed the object. Programs and maps are found without opening them: a program array
// that is opened while the kernel clears it after its last user loses a reference for good (bpf_map_put_uref schedules the
// same work twice), and would be what is left over.
func (o kernelObject) gone() bool {
	switch o.kind {
	case "prog_id":
		id, err := ebpf.ProgramGetNextID(ebpf.ProgramID(o.id - 1))
		return err != nil || uint32(id) != o.id
	case "map_id":
		id, err := ebpf.MapGetNextID(ebpf.MapID(o.id - 1))
		return err != nil || uint32(id) != o.id
	default:
		l, err := link.NewFromID(link.ID(o.id))
		if err == nil {
			l.Close()
		}
		return errors.Is(err, os.ErrNotExist)
	}
}

// kernelObjects lists the programs, maps and links that a process holds.
func kernelObjects(t testing.TB, pid int) []kernelObject {
	t.Helper()
	infos, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	var objects []kernelObject
	for _, info := range infos {
		// A descriptor may be closed in between.
		content, err := os.ReadFile(info)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(content)) {
			kind, value, _ := strings.Cut(line, ":")
			if kind != "prog_id" && kind != "map_id" && kind != "link_id" {
				continue
			}
			id, err := strconv.ParseUint(strings.TrimSpace(value), 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			objects = append(objects, kernelObject{kind: kind, id: uint32(id)})
		}
	}
	return objects
}

// checkNothingLeft fails the test when an object or a new pin survives.
func checkNothingLeft(t testing.TB, objects []kernelObject, pinsBefore map[string]bool) {
	t.Helper()
	deadline := time.Now().Add(FreedWithin)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for _, o := range objects {
		for !o.gone() {
			if time.Now().After(deadline) {
				violation.Errorf(t, "%s %d of the daemon is still in the kernel %v after its end", o.kind, o.id, FreedWithin)
				break
			}
			<-ticker.C
		}
	}
	for pin := range pins(t) {
		if !pinsBefore[pin] && strings.Contains(pin, "xlb") {
			violation.Errorf(t, "%s is still pinned after the daemon's end", pin)
		}
	}
}

// pins lists what is in the BPF file systems of this mount namespace.
func pins(t testing.TB) map[string]bool {
	t.Helper()
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	defer mounts.Close()
	found := map[string]bool{}
	for lines := bufio.NewScanner(mounts); lines.Scan(); {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		if fields := strings.Fields(before); strings.HasPrefix(after, "bpf ") && len(fields) >= 5 {
			// A pin may vanish during the walk.
			_ = filepath.WalkDir(fields[4], func(path string, _ fs.DirEntry, err error) error {
				found[path] = err == nil
				return nil
			})
		}
	}
	return found
}

// KernelObjects are the programs, maps and links that a process holds, and what becomes of them.
type KernelObjects []kernelObject

// KernelObjects lists those of the daemon.
func (b *Balancer) KernelObjects(t testing.TB) KernelObjects {
	t.Helper()
	return kernelObjects(t, b.PID())
}

// ObjectsOf lists those of a process.
func ObjectsOf(t testing.TB, pid int) KernelObjects {
	t.Helper()
	return kernelObjects(t, pid)
}

// Left counts those that are still in the kernel.
func (k KernelObjects) Left() (n int) {
	for _, o := range k {
		if !o.gone() {
			n++
		}
	}
	return n
}

// Slay kills the daemon, and fails the test for what is left of it in the kernel.
func (b *Balancer) Slay(t testing.TB) {
	t.Helper()
	objects := kernelObjects(t, b.PID())
	b.Kill(t)
	checkNothingLeft(t, objects, pins(t))
}

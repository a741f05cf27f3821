// SPDX-License-Identifier: Apache-2.0

package pins

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/heels/settings"
)

// LinkPrefix begins the names of pinned links; none of a map does.
const LinkPrefix = "link_"

// LinkNames are the names of the links in a pin directory.
func LinkNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, &Error{dir, err}
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), LinkPrefix) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// IsFinisher says whether a link is to a cgroup that an agent before has served.
func IsFinisher(name string) bool {
	short, _, _ := strings.Cut(name, "-")
	return strings.Contains(short, finishMark)
}

// IsAttached says whether what a link was attached to is still there.
func IsAttached(dir, name string) bool { return AttachedTo(dir, name) != 0 }

// AttachedTo is the number of what a pinned link is attached to; 0 when there is no such link, or that is gone.
func AttachedTo(dir, name string) uint64 {
	l, err := link.LoadPinnedLink(filepath.Join(dir, name), nil)
	if err != nil {
		return 0
	}
	defer l.Close()
	number, err := attachedTo(l)
	if err != nil {
		return 0
	}
	return number
}

// attachedTo is the number of what a link is attached to; 0 when that is gone.
func attachedTo(l link.Link) (uint64, error) {
	info, err := l.Info()
	if err != nil {
		return 0, err
	}
	if c := info.Cgroup(); c != nil {
		return c.CgroupId, nil
	}
	if t := info.TCX(); t != nil {
		return uint64(t.Ifindex), nil
	}
	return 0, nil
}

// CgroupNumber is what the kernel knows a cgroup by.
func CgroupNumber(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, &settings.FieldError{Path: "cgroup", Reason: fmt.Sprintf("%s: %v", path, err)}
	}
	return st.Ino, nil
}

// Unlink takes a program off. Without the pin alone it would stay in force until the kernel has found that no reference to it is left.
func Unlink(dir, name string) error {
	path := filepath.Join(dir, name)
	l, err := link.LoadPinnedLink(path, nil)
	if err != nil {
		return fmt.Errorf("take off %s: %w", name, err)
	}
	defer l.Close()
	if err := l.Detach(); err != nil {
		return fmt.Errorf("take off %s: %w", name, err)
	}
	return os.Remove(path)
}

// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// hierarchies are where the cgroups of the host are mounted (cgroups(7)).
type hierarchies struct {
	// unified is that of version 2.
	unified group
	// legacy are those of version 1, by controller. A host has them beside version 2, or not at all.
	legacy map[string]group
}

// mountedHierarchies reads those of this process's mount namespace.
func mountedHierarchies() (hierarchies, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return hierarchies{}, fmt.Errorf("find the cgroups: %w", err)
	}
	h := parseHierarchies(string(text))
	if h.unified == "" {
		return h, errors.New("find the cgroups: cgroup v2 is not mounted; mount -t cgroup2 none /sys/fs/cgroup")
	}
	return h, nil
}

// parseHierarchies reads proc_pid_mountinfo(5). Of several mounts of a hierarchy, one of its root is taken.
func parseHierarchies(mountinfo string) hierarchies {
	h := hierarchies{legacy: map[string]group{}}
	wholeUnified, wholeLegacy := false, map[string]bool{}
	for line := range strings.Lines(mountinfo) {
		m := parseMount(strings.TrimSuffix(line, "\n"))
		isWhole := m.root == "/"
		if m.kind == "cgroup2" && (h.unified == "" || isWhole && !wholeUnified) {
			h.unified, wholeUnified = m.at, isWhole
		}
		if m.kind != "cgroup" {
			continue
		}
		for option := range strings.SplitSeq(m.options, ",") {
			if h.legacy[option] == "" || isWhole && !wholeLegacy[option] {
				h.legacy[option], wholeLegacy[option] = m.at, isWhole
			}
		}
	}
	return h
}

// mount is a line of mountinfo.
type mount struct {
	// root is the directory of the file system that is mounted, kind the file system's type, and options its own, which have the controllers of version 1.
	root, kind, options string
	at                  group
}

// parseMount reads: (1) ID (2) parent (3) device (4) root (5) mount point (6) options … "-" type source options. Another line is no mount.
func parseMount(line string) mount {
	before, after, _ := strings.Cut(line, " - ")
	here, system := strings.Split(before, " "), strings.Split(after, " ")
	if len(here) < 6 || len(system) < 3 {
		return mount{}
	}
	return mount{root: here[3], at: group(unescape.Replace(here[4])), kind: system[0], options: system[2]}
}

// unescape undoes the octal escapes of mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// SPDX-License-Identifier: Apache-2.0

package pod

import "strings"

// Runtimes, as Identity.Runtime has them.
const (
	containerd = "containerd"
	crio       = "cri-o"
	docker     = "docker"
	podman     = "podman"
)

// runtimes are what the names of containers' cgroups begin with, before the container's ID.
var runtimes = []struct{ prefix, runtime string }{
	{"cri-containerd-", containerd},
	{"nerdctl-", containerd},
	{"crio-", crio},
	{"docker-", docker},
	{"libpod-", podman},
}

// monitors are the beginnings of the names of cgroups that a runtime's own processes are in.
var monitors = []string{"crio-conmon-", "libpod-conmon-"}

// parents are directories in which a runtime makes directories that have a container's ID as their name.
var parents = map[string]string{"docker": docker, "k8s.io": containerd}

// deleted is what the kernel writes behind the path of a cgroup that has been removed.
const deleted = " (deleted)"

// The lengths of a container's ID: as all runtimes make them, and the longest that is taken within a pod.
const (
	lengthOfID = 64
	longestID  = 128
)

// ContainerOfProcess is ContainerOf for a process, of which this is /proc/PID/cgroup (cgroups(7): lines of number:controllers:path). The cgroup of version 2
// goes first: where processes are in cgroups of version 1 as well, a runtime may have given names there alone.
func ContainerOfProcess(cgroups string) (first Identity, ok bool) {
	for line := range strings.Lines(cgroups) {
		hierarchy, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		_, path, _ := strings.Cut(rest, ":")
		switch id, isContainer := ContainerOf(path); {
		case isContainer && hierarchy == "0":
			return id, true
		case isContainer && !ok:
			first, ok = id, true
		}
	}
	return first, ok
}

// ContainerOf is what the path of a cgroup, as the line "0::" of /proc/PID/cgroup has it, says of the container whose processes are in it. false, and an
// empty Identity: it is that of no container that is recognised.
//
// The outermost container is taken: a process in a container may make cgroups below the container's, with any names. For the same reason nothing is
// recognised below a service, a scope, or a user's slice.
//
// Container has 64 hexadecimal digits in lower case, or, within a pod, where the kubelet and the runtime alone make directories, up to 128 letters, digits,
// "_", "." and "-", the first one a letter or a digit. UID is a UUID in lower case, or has 32 hexadecimal digits, as static pods have.
func ContainerOf(path string) (Identity, bool) {
	path, isAbsolute := strings.CutPrefix(strings.TrimSuffix(path, deleted), "/")
	if !isAbsolute {
		return Identity{}, false
	}
	// A path may begin above the root of the reader's cgroup namespace: then the names of the first directories, which hold the reader, too, are missing.
	isCut := false
	for first, rest := next(path); first == ".."; first, rest = next(path) {
		path, isCut = rest, true
	}
	if isCut {
		if id, ok := besidePods(path); ok {
			return id, true
		}
	}
	return belowRoot(path)
}

// next cuts a path behind its first name.
func next(path string) (name, rest string) {
	name, rest, _ = strings.Cut(path, "/")
	return name, rest
}

// belowRoot reads the names that lead to a container, from the root on.
func belowRoot(path string) (Identity, bool) {
	for parent := ""; path != ""; {
		name, rest := next(path)
		if slice, ok := kubepods(name); ok {
			return inKubepods(slice, rest)
		}
		if id, ok := outsidePods(parent, name); ok {
			return id, true
		}
		if !isOfRoot(name) {
			break
		}
		parent, path = name, rest
	}
	return Identity{}, false
}

// isOfRoot reports a directory in which root alone makes directories: not a service or a scope, which may be delegated, not a user's slice, or the directory
// that pam_cgfs makes of users' own without systemd (user/NAME/0), and no system container of LXC or libvirt, whose names are plain.
func isOfRoot(name string) bool {
	switch {
	case name == "" || name == "." || name == "..":
		return false
	case strings.HasSuffix(name, ".service"), strings.HasSuffix(name, ".scope"):
		return false
	case strings.HasSuffix(name, ".libvirt-lxc"):
		return false
	case name == "user", name == "user.slice", strings.HasPrefix(name, "user-"), strings.HasPrefix(name, "lxc"):
		return false
	}
	return true
}

// kubepods reports the kubelet's directory of all pods. slice is its name without ".slice", with the systemd driver; with cgroupfs it is empty.
func kubepods(name string) (slice string, ok bool) {
	if name == "kubepods" {
		return "", true
	}
	slice, ok = strings.CutSuffix(name, ".slice")
	if !ok || strings.HasPrefix(name, "user-") || slice != "kubepods" && !strings.HasSuffix(slice, "-kubepods") {
		return "", false
	}
	return slice, true
}

// inKubepods reads what is below the kubelet's directory of all pods, or of those of a class of service.
func inKubepods(slice, path string) (Identity, bool) {
	name, rest := next(path)
	if class, ok := classOf(slice, name); ok {
		slice = class
		name, rest = next(rest)
	}
	uid, ok := uidOf(slice, name)
	if !ok {
		return Identity{}, false
	}
	name, _ = next(rest)
	id, ok := inPod(name)
	if !ok {
		return Identity{}, false
	}
	id.UID = uid
	return id, true
}

// classOf reports the directory of the pods of a class of service. slice is that name without ".slice"; with cgroupfs it is empty.
func classOf(above, name string) (slice string, ok bool) {
	if above == "" {
		return "", name == "burstable" || name == "besteffort"
	}
	slice, ok = strings.CutSuffix(name, ".slice")
	return slice, ok && (slice == above+"-burstable" || slice == above+"-besteffort")
}

// uidOf is the UID of the pod whose directory has that name. systemd takes "-" for a level of slices, so the kubelet writes "_" in its place.
func uidOf(above, name string) (uid string, ok bool) {
	if above == "" {
		uid, ok = strings.CutPrefix(name, "pod")
		return uid, ok && isUID(uid)
	}
	if name, ok = strings.CutSuffix(name, ".slice"); !ok {
		return "", false
	}
	uid, ok = strings.CutPrefix(name, above+"-pod")
	if !ok || strings.Contains(uid, "-") {
		return "", false
	}
	uid = strings.ReplaceAll(uid, "_", "-")
	return uid, isUID(uid)
}

// besidePods reads a path of which the first names are missing, and the kubelet's directory is, or may be, among those.
func besidePods(path string) (Identity, bool) {
	name, _ := next(path)
	slice, isSlice := strings.CutSuffix(name, ".slice")
	if !isSlice {
		return inKubepods("", path)
	}
	for _, class := range []string{"", "-burstable", "-besteffort"} {
		above, ok := strings.CutSuffix(slice, class)
		if i := strings.LastIndex(above, "-pod"); i >= 0 {
			above = above[:i]
		}
		if _, isPods := kubepods(withoutClass(above) + ".slice"); ok && isPods {
			if id, ok := inKubepods(above, path); ok {
				return id, true
			}
		}
	}
	return Identity{}, false
}

func withoutClass(slice string) string {
	return strings.TrimSuffix(strings.TrimSuffix(slice, "-burstable"), "-besteffort")
}

// outsidePods reads the name of a container's directory that is in no pod.
func outsidePods(parent, name string) (Identity, bool) {
	name, isScope := strings.CutSuffix(name, ".scope")
	if isID(name) && !isScope && parent != "libpod_parent" { // there it is podman's group of containers
		return Identity{Runtime: parents[parent], Container: name}, true
	}
	if runtime, id := cutRuntime(name); runtime != "" && isID(id) {
		return Identity{Runtime: runtime, Container: id}, true
	}
	return Identity{}, false
}

// inPod reads the name of a container's directory in that of a pod.
func inPod(name string) (Identity, bool) {
	for _, m := range monitors {
		if strings.HasPrefix(name, m) {
			return Identity{}, false
		}
	}
	name, isScope := strings.CutSuffix(name, ".scope")
	runtime, id := cutRuntime(name)
	isUnit := strings.HasSuffix(name, ".slice") || strings.HasSuffix(name, ".service")
	if isUnit || isScope && runtime == "" || !isLaxID(id) {
		return Identity{}, false
	}
	return Identity{Runtime: runtime, Container: id}, true
}

// cutRuntime is the name of a container's directory without what it begins with, and what that says of the runtime; empty: nothing.
func cutRuntime(name string) (runtime, id string) {
	for _, r := range runtimes {
		if id, ok := strings.CutPrefix(name, r.prefix); ok {
			return r.runtime, id
		}
	}
	return "", name
}

func isUID(s string) bool {
	switch len(s) {
	case 32:
		return isHex(s)
	case 36:
		return s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' &&
			isHex(s[:8]) && isHex(s[9:13]) && isHex(s[14:18]) && isHex(s[19:23]) && isHex(s[24:])
	}
	return false
}

func isID(s string) bool { return len(s) == lengthOfID && isHex(s) }

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || '9' < c) && (c < 'a' || 'f' < c) {
			return false
		}
	}
	return true
}

func isLaxID(s string) bool {
	if s == "" || len(s) > longestID || !isAlphanumeric(s[0]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isAlphanumeric(c) && c != '_' && c != '.' && c != '-' {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

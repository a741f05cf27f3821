// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"regexp"
	"strings"
	"testing"
)

const (
	id         = "4d1c5a0e7f6b8a9c0d1e2f3a4b5c6d7e8f9a0b1c2d3e4f5a6b7c8d9e0f1a2b3c"
	inner      = "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
	uid        = "0f5b4a7e-3c1d-4b2a-9e8f-7a6b5c4d3e2f"
	uidInSlice = "0f5b4a7e_3c1d_4b2a_9e8f_7a6b5c4d3e2f"
	mirror     = "3b0f1e2d4c5a69788796a5b4c3d2e1f0"
)

func TestContainersAreRecognisedByTheirCgroups(t *testing.T) {
	pods := func(runtime string) Identity { return Identity{Runtime: runtime, Container: id, UID: uid} }
	static := Identity{Runtime: containerd, Container: id, UID: mirror}
	tests := []struct {
		name string
		path string
		want Identity
	}{
		{"systemd, guaranteed, containerd", "/kubepods.slice/kubepods-pod" + uidInSlice + ".slice/cri-containerd-" + id + ".scope", pods(containerd)},
		{"systemd, burstable, containerd", "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uidInSlice + ".slice/cri-containerd-" + id + ".scope", pods(containerd)},
		{"systemd, best effort, CRI-O", "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + uidInSlice + ".slice/crio-" + id + ".scope", pods(crio)},
		{"systemd, CRI-O, crun's own level", "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uidInSlice + ".slice/crio-" + id + ".scope/container", pods(crio)},
		{"systemd, cri-dockerd", "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uidInSlice + ".slice/docker-" + id + ".scope", pods(docker)},
		{"systemd, static pod", "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + mirror + ".slice/cri-containerd-" + id + ".scope", static},
		{"cgroupfs, guaranteed, containerd", "/kubepods/pod" + uid + "/" + id, pods("")},
		{"cgroupfs, burstable, cri-dockerd", "/kubepods/burstable/pod" + uid + "/" + id, pods("")},
		{"cgroupfs, best effort, CRI-O", "/kubepods/besteffort/pod" + uid + "/crio-" + id, pods(crio)},
		{"cgroupfs, static pod", "/kubepods/burstable/pod" + mirror + "/" + id, Identity{Container: id, UID: mirror}},
		{"kind, seen in the node, cgroupfs", "/kubelet/kubepods/burstable/pod" + uid + "/" + id, pods("")},
		{"kind, seen in the node, systemd", "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" + uidInSlice + ".slice/cri-containerd-" + id + ".scope", pods(containerd)},
		{"kind, seen on the host", "/docker/" + id + "/kubelet/kubepods/burstable/pod" + uid + "/" + inner, Identity{Runtime: docker, Container: id}},
		{"kind, seen on the host, systemd", "/system.slice/docker-" + id + ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + uidInSlice + ".slice/cri-containerd-" + inner + ".scope", Identity{Runtime: docker, Container: id}},
		{"root of the kubelet", "/a/b/kubepods/pod" + uid + "/" + id, pods("")},
		{"root of the kubelet, systemd", "/a.slice/a-b.slice/a-b-kubepods.slice/a-b-kubepods-pod" + uidInSlice + ".slice/crio-" + id + ".scope", pods(crio)},
		{"short ID in a pod", "/kubepods/pod" + uid + "/web_1.a-b", Identity{Container: "web_1.a-b", UID: uid}},
		{"Docker", "/docker/" + id, Identity{Runtime: docker, Container: id}},
		{"Docker, systemd", "/system.slice/docker-" + id + ".scope", Identity{Runtime: docker, Container: id}},
		{"Docker, a parent", "/team/a/" + id, Identity{Container: id}},
		{"Docker, a parent, systemd", "/team.slice/docker-" + id + ".scope", Identity{Runtime: docker, Container: id}},
		{"podman", "/machine.slice/libpod-" + id + ".scope/container", Identity{Runtime: podman, Container: id}},
		{"podman, in a group", "/machine.slice/machine-libpod_pod_" + inner + ".slice/libpod-" + id + ".scope", Identity{Runtime: podman, Container: id}},
		{"podman, cgroupfs", "/libpod_parent/libpod-" + id, Identity{Runtime: podman, Container: id}},
		{"podman, cgroupfs, in a group", "/libpod_parent/" + inner + "/libpod-" + id, Identity{Runtime: podman, Container: id}},
		{"nerdctl", "/system.slice/nerdctl-" + id + ".scope", Identity{Runtime: containerd, Container: id}},
		{"containerd without a kubelet", "/k8s.io/" + id, Identity{Runtime: containerd, Container: id}},
		{"a pod's directory elsewhere", "/mykubepods/pod" + uid + "/" + id, Identity{Container: id}},
		{"removed cgroup", "/docker/" + id + " (deleted)", Identity{Runtime: docker, Container: id}},
		{"processes below the container", "/docker/" + id + "/init.scope/a.service", Identity{Runtime: docker, Container: id}},
		{"outside of the reader's cgroup namespace", "/../../kubepods/pod" + uid + "/" + id, pods("")},
		{"another pod, seen in a pod, cgroupfs", "/../../pod" + uid + "/" + id, pods("")},
		{"a pod of another class, seen in a pod, cgroupfs", "/../../../besteffort/pod" + uid + "/crio-" + id, pods(crio)},
		{"another pod, seen in a pod", "/../../kubepods-burstable-pod" + uidInSlice + ".slice/cri-containerd-" + id + ".scope", pods(containerd)},
		{"a guaranteed pod, seen in a pod", "/../../../kubepods-pod" + uidInSlice + ".slice/cri-containerd-" + id + ".scope", pods(containerd)},
		{"a pod of another class, seen in a pod", "/../../../kubepods-besteffort.slice/kubepods-besteffort-pod" + uidInSlice + ".slice/cri-containerd-" + id + ".scope", pods(containerd)},
		{"a pod of kind, seen in a pod", "/../../kubelet-kubepods-burstable-pod" + uidInSlice + ".slice/cri-containerd-" + id + ".scope", pods(containerd)},
		{"another container of the same pod", "/../cri-containerd-" + id + ".scope", Identity{Runtime: containerd, Container: id}},
		{"Docker, seen in a container", "/../" + id, Identity{Container: id}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := ContainerOf(tt.path)
			if !ok || got != tt.want {
				t.Errorf("ContainerOf(%q) = %+v, %v, want %+v", tt.path, got, ok, tt.want)
			}
		})
	}
}

// What a user, or a process in a container, may name as it likes says nothing of a pod.
func TestNamesThatOthersMayGiveAreNoContainers(t *testing.T) {
	pod := "kubepods/pod" + uid + "/" + id
	slice := "kubepods.slice/kubepods-pod" + uidInSlice + ".slice/"
	tests := []struct{ name, path string }{
		{"root", "/"},
		{"nothing", ""},
		{"only the mark of a removed one", " (deleted)"},
		{"no absolute path", pod},
		{"service", "/system.slice/nginx.service"},
		{"below a service", "/system.slice/a.service/" + pod},
		{"container below a service", "/system.slice/a.service/docker/" + id},
		{"below a scope", "/init.scope/" + pod},
		{"below a user's slice", "/user.slice/" + pod},
		{"below a user's session", "/user.slice/user-1000.slice/user@1000.service/app.slice/" + pod},
		{"below a user's directory, without systemd", "/user/alice/0/" + pod},
		{"container below a user's directory", "/user/alice/0/docker/" + id},
		{"system container of libvirt", "/machine/a.libvirt-lxc/" + pod},
		{"below a slice of one user", "/user-1000.slice/" + pod},
		{"rootless podman", "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id + ".scope"},
		{"slice of a user that is called as the kubelet's", "/user-kubepods.slice/user-kubepods-pod" + uidInSlice + ".slice/crio-" + id + ".scope"},
		{"system container of LXC", "/lxc.payload.a/" + pod},
		{"older system container of LXC", "/lxc/a/" + pod},
		{"beyond a user's slice, from a cgroup namespace", "/../../user.slice/user-1000.slice/user@1000.service/" + pod},
		{"kubepods alone", "/kubepods"},
		{"kubepods without a pod", "/kubepods/burstable"},
		{"container that is in no pod", "/kubepods/" + id},
		{"second kubepods", "/kubepods/kubepods/pod" + uid + "/" + id},
		{"pod without a container", "/kubepods/burstable/pod" + uid},
		{"pod's slice without a container", "/" + slice},
		{"two classes", "/kubepods/burstable/besteffort/pod" + uid + "/" + id},
		{"unknown class", "/kubepods/gold/pod" + uid + "/" + id},
		{"slice of another level", "/kubepods.slice/kubepods-burstable.slice/kubepods-besteffort-pod" + uidInSlice + ".slice/crio-" + id + ".scope"},
		{"slice of another tree", "/kubepods.slice/other-kubepods-pod" + uidInSlice + ".slice/crio-" + id + ".scope"},
		{"short UID", "/kubepods/pod" + uid[1:] + "/" + id},
		{"long UID", "/kubepods/pod" + uid + "0/" + id},
		{"UID in upper case", "/kubepods/pod" + strings.ToUpper(uid) + "/" + id},
		{"UID with underscores", "/kubepods/pod" + uidInSlice + "/" + id},
		{"UID with dashes in a slice", "/kubepods.slice/kubepods-pod" + uid + ".slice/crio-" + id + ".scope"},
		{"UID with dashes elsewhere", "/kubepods/pod" + mirror + "----/" + id},
		{"conmon", "/" + slice + "crio-conmon-" + id + ".scope"},
		{"conmon, cgroupfs", "/kubepods/pod" + uid + "/crio-conmon-" + id},
		{"conmon outside of pods", "/machine.slice/libpod-conmon-" + id + ".scope"},
		{"scope of no runtime", "/" + slice + "other-" + id + ".scope"},
		{"slice in a pod", "/" + slice + "a.slice"},
		{"service in a pod", "/" + slice + "a.service"},
		{"ID with a space", "/kubepods/pod" + uid + "/a b"},
		{"ID with a line feed", "/kubepods/pod" + uid + "/a\nb"},
		{"ID beyond the longest", "/kubepods/pod" + uid + "/" + strings.Repeat("a", longestID+1)},
		{"ID that begins with a dot", "/kubepods/pod" + uid + "/.hidden"},
		{"pod's directory that leads up", "/kubepods/pod" + uid + "/.."},
		{"runtime without an ID", "/" + slice + "crio-.scope"},
		{"dots amid a path", "/a/../kubepods/pod" + uid + "/" + id},
		{"one dot", "/./kubepods/pod" + uid + "/" + id},
		{"empty name", "//kubepods/pod" + uid + "/" + id},
		{"empty name amid a path", "/a//kubepods/pod" + uid + "/" + id},
		{"empty name within", "/kubepods//pod" + uid + "/" + id},
		{"ID in upper case", "/docker/" + strings.ToUpper(id)},
		{"short ID outside of pods", "/docker/" + id[:12]},
		{"scope with an ID alone", "/system.slice/" + id + ".scope"},
		{"podman's group alone", "/libpod_parent/" + id},
		{"only up", "/../.."},
		{"very long", "/" + strings.Repeat("a/", 1<<20)},
		{"very long name", "/" + strings.Repeat("a", 1<<20) + "/"},
		{"very many levels up", strings.Repeat("/..", 1<<20)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := ContainerOf(tt.path); ok || got != (Identity{}) {
				t.Errorf("ContainerOf(%.200q) = %+v, %v, want nothing", tt.path, got, ok)
			}
		})
	}
}

// A container's processes make cgroups below the container's with names of other pods.
func TestACgroupOfVersion2GoesFirst(t *testing.T) {
	const one, two = "1111111111111111111111111111111111111111111111111111111111111111", "2222222222222222222222222222222222222222222222222222222222222222"
	tests := []struct {
		name, cgroups string
		want          Identity
		ok            bool
	}{
		{"version 2 alone", "0::/docker/" + one + "\n", Identity{Runtime: docker, Container: one}, true},
		{"both", "7:memory:/docker/" + two + "\n0::/docker/" + one + "\n", Identity{Runtime: docker, Container: one}, true},
		{"version 1 alone", "7:memory:/docker/" + two + "\n1:name=systemd:/docker/" + one + "\n", Identity{Runtime: docker, Container: two}, true},
		{"version 2 without a name", "1:name=systemd:/system.slice/docker-" + two + ".scope\n0::/\n", Identity{Runtime: docker, Container: two}, true},
		{"a colon in a name", "0::/a:/docker/" + one + "\n", Identity{Runtime: docker, Container: one}, true},
		{"a name that begins a line anew", "0::/user.slice/0::/docker/" + one + "\n", Identity{}, false},
		{"no container", "7:memory:/shop\n0::/shop\n", Identity{}, false},
		{"nothing", "", Identity{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := ContainerOfProcess(tt.cgroups); got != tt.want || ok != tt.ok {
				t.Errorf("got %+v, %v, want %+v, %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}

func TestOutermostContainerWins(t *testing.T) {
	fake := "/kubepods.slice/kubepods-pod11111111_1111_1111_1111_111111111111.slice/cri-containerd-" + inner + ".scope"
	for _, outer := range []string{
		"/docker/" + id, "/" + id, "/kubepods/pod" + uid + "/" + id, "/machine.slice/libpod-" + id + ".scope",
		"/kubepods.slice/kubepods-pod" + uidInSlice + ".slice/crio-" + id + ".scope", "/../" + id,
	} {
		for _, below := range []string{fake, "/docker/" + inner, "/kubepods/pod" + mirror + "/" + inner, "/user.slice", "/a.service", "/../..", " (deleted)"} {
			want, _ := ContainerOf(outer)
			if got, ok := ContainerOf(outer + below); !ok || got != want || got.Container != id {
				t.Errorf("ContainerOf(%q) = %+v, %v, want %+v", outer+below, got, ok, want)
			}
		}
	}
}

var (
	validUID = regexp.MustCompile(`^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32})$`)
	validID  = regexp.MustCompile(`^[0-9a-zA-Z][0-9a-zA-Z_.-]{0,127}$`)
	hexID    = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

func FuzzContainerOf(f *testing.F) {
	for _, path := range []string{
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uidInSlice + ".slice/cri-containerd-" + id + ".scope",
		"/../../kubepods-besteffort.slice/kubepods-besteffort-pod" + uidInSlice + ".slice/crio-" + id + ".scope",
		"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + mirror + ".slice/docker-" + id + ".scope (deleted)",
		"/kubepods/besteffort/pod" + uid + "/crio-conmon-" + id, "/../pod" + mirror + "/a", "/docker/" + id + "/kubepods/pod" + uid + "/" + inner,
		"/user.slice/user-1000.slice/user@1000.service/a", "/libpod_parent/libpod-" + id, "//./..",
	} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		got, ok := ContainerOf(path)
		switch {
		case !ok && got != Identity{}:
			t.Errorf("%q is no container, and is %+v", path, got)
		case !ok:
		case got.Namespace != "" || got.Name != "":
			t.Errorf("%q has a name: %+v", path, got)
		case got.UID == "" && !hexID.MatchString(got.Container), got.UID != "" && (!validUID.MatchString(got.UID) || !validID.MatchString(got.Container)):
			t.Errorf("%q is %+v", path, got)
		case !strings.Contains(path, got.Container):
			t.Errorf("%q has not the ID of %+v", path, got)
		}
	})
}

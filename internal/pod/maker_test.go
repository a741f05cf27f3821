// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"strings"
	"testing"
)

func TestAMakerIsWhoCannotMakeMoreOfHimself(t *testing.T) {
	t.Parallel()
	const (
		uid = "0f3b5e0a-7c1d-4e7e-9f3a-2b1c0d9e8f7a"
		id  = "6f3c0a9be1d26f3c0a9be1d26f3c0a9be1d26f3c0a9be1d26f3c0a9be1d26f3c"
	)
	for _, tt := range []struct{ name, cgroups, want string }{
		{"of a pod", "0::/kubepods/burstable/pod" + uid + "/" + id, "pod " + uid},
		{"of another container of it", "0::/kubepods/burstable/pod" + uid + "/other", "pod " + uid},
		{"below a container", "0::/kubepods/burstable/pod" + uid + "/" + id + "/kubepods/pod" + strings.Repeat("a", 32) + "/x", "pod " + uid},
		{"of Docker", "0::/system.slice/docker-" + id + ".scope/init.scope/a", "container " + id},
		{"version 1 alone", "5:cpu:/docker/" + id + "\n0::/", "container " + id},
		{"a service", "0::/system.slice/a.service", "cgroup /system.slice/a.service"},
		{"below a service", "0::/system.slice/a.service/docker/" + id, "cgroup /system.slice/a.service"},
		{"a service at the root", "0::/a.service/b/c", "cgroup /a.service"},
		{"a session", "0::/user.slice/user-1000.slice/session-7.scope", "cgroup /user.slice/user-1000.slice"},
		{"a user's unit", "0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope", "cgroup /user.slice/user-1000.slice"},
		{"another user", "0::/user.slice/user-1001.slice/session-7.scope", "cgroup /user.slice/user-1001.slice"},
		{"a user without systemd", "0::/user/ann/0", "cgroup /user/ann"},
		{"a system container", "0::/lxc.payload.web/a/b", "cgroup /lxc.payload.web"},
		{"an older system container", "0::/lxc/web/a/b", "cgroup /lxc/web"},
		{"of another owner", "0::/tenants/ann/a", "cgroup /tenants/ann"},
		{"of another owner, deeper", "0::/tenants/ann/a/b/c/d", "cgroup /tenants/ann"},
		{"of root", "0::/a/b", "cgroup /a/b"},
		{"of root, deep", "0::/a/b/c/d/e", "cgroup /a/b/c"},
		{"above the reader's root", "0::/../../a/b.service/c", "cgroup /../../a/b.service"},
		{"removed", "0::/a/b (deleted)", "cgroup /a/b"},
		{"the root", "0::/", "cgroup /"},
		{"none of version 2", "5:cpu:/a", "cgroup /"},
		{"nothing", "", "cgroup /"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := MakerOfProcess(tt.cgroups+"\n", func(path string) bool { return !strings.HasPrefix(path, "/tenants/ann") })
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAMakerWithoutAPodOrContainerHasNoName(t *testing.T) {
	t.Parallel()
	if got := MakerOf(Identity{Runtime: containerd, Name: "web-0"}); got != "" {
		t.Errorf("got %q, want none", got)
	}
}

// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCgroupMountIsFoundOnPureAndHybridHosts(t *testing.T) {
	tests := []struct{ name, mountinfo, want string }{
		{
			name:      "pure v2 with optional fields",
			mountinfo: "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
			want:      "/sys/fs/cgroup",
		},
		{
			name: "hybrid",
			mountinfo: "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n" +
				"32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n" +
				"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			want: "/sys/fs/cgroup/unified",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := CgroupMount(strings.NewReader(tt.mountinfo))
			if err != nil || got != tt.want {
				t.Errorf("CgroupMount() = %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestCgroupMountMissingNamesTheRemedy(t *testing.T) {
	_, err := CgroupMount(strings.NewReader("32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"))
	if err == nil || !strings.Contains(err.Error(), "mount -t cgroup2") {
		t.Errorf("CgroupMount() without v2 = %v, want the mount command", err)
	}
}

func TestCPUStatReadsUsage(t *testing.T) {
	got, err := CPUStat("usage_usec 1500\nuser_usec 1000\nsystem_usec 500\n")
	if err != nil || got != 1500*time.Microsecond {
		t.Errorf("CPUStat() = %v, %v, want 1.5ms", got, err)
	}
	for _, bad := range []string{"", "user_usec 5\n", "usage_usec many\n"} {
		if got, err := CPUStat(bad); err == nil {
			t.Errorf("CPUStat(%q) = %v, want an error", bad, got)
		}
	}
}

func TestEndpointsAreInTheWorkloadOnlyOnOneHost(t *testing.T) {
	want := [roles]string{"/c/workload/clients", "/c/workload/endpoints", "/c/balancer"}
	if diff := cmp.Diff(want, cgroupsOf("/c", SameHost)); diff != "" {
		t.Errorf("same host (-want +got):\n%s", diff)
	}
	want[Endpoint] = "/c/endpoints"
	if diff := cmp.Diff(want, cgroupsOf("/c", CrossHost)); diff != "" {
		t.Errorf("cross host (-want +got):\n%s", diff)
	}
}

func TestNamespacesHaveNoRouteOut(t *testing.T) {
	for _, topology := range []Topology{SameHost, CrossHost} {
		for _, command := range namespaceCommands(topology) {
			if strings.Contains(command, "route") {
				t.Errorf("topology %s: %q adds a route", topology, command)
			}
		}
	}
}

func TestPollReturnsTheLastErrorWhenTimeEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	calls := 0
	want := errors.New("third")
	err := Poll(ctx, time.Microsecond, func() error {
		calls++
		if calls == 3 {
			cancel()
		}
		return []error{errors.New("first"), errors.New("second"), want, want, want}[min(calls, 5)-1]
	})
	if !errors.Is(err, want) {
		t.Errorf("Poll() = %v, want %v", err, want)
	}
}

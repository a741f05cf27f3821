// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCongestionControlIsTheOneAskedFor(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	before := congestionControl(t, fd)
	if err := SetCongestionControl(fd, ""); err != nil {
		t.Fatal(err)
	}
	if got := congestionControl(t, fd); got != before {
		t.Errorf("without a name: %q, want the machine's, %q", got, before)
	}
	// Every kernel has it.
	if err := SetCongestionControl(fd, "reno"); err != nil {
		t.Fatal(err)
	}
	if got := congestionControl(t, fd); got != "reno" {
		t.Errorf("congestion control = %q, want reno", got)
	}
}

func TestCongestionControlThatTheKernelLacksIsNamedWithThoseItHas(t *testing.T) {
	if err := CheckCongestionControl("reno"); err != nil {
		t.Error(err)
	}
	err := CheckCongestionControl("tortoise")
	if err == nil || !strings.Contains(err.Error(), `"tortoise"`) || !strings.Contains(err.Error(), "reno") {
		t.Errorf("CheckCongestionControl() = %v, want an error that names both", err)
	}
}

func congestionControl(t *testing.T, fd int) string {
	t.Helper()
	name, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimRight(name, "\x00")
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/admin"
)

const (
	servedLine  = "served: new connections are balanced\n"
	leavingLine = "leaving: 2 connections are open still; new ones are not balanced\n"
)

// named makes this process's network namespace one with a name, in a directory of the test's own.
func named(t *testing.T, name string) (file string) {
	t.Helper()
	dirs := namespaceDirectories
	t.Cleanup(func() { namespaceDirectories = dirs })
	namespaceDirectories = []string{t.TempDir(), t.TempDir()}
	file = filepath.Join(namespaceDirectories[1], name)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("/proc/self/ns/net", file, "", unix.MS_BIND, ""); err != nil {
		t.Fatalf("mount a network namespace (the tests need root): %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(file, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return file
}

func TestNamespacesAreReleasedAndJoined(t *testing.T) {
	address, file, pid := adminAPI(t), named(t, "web"), strconv.Itoa(os.Getpid())
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"release", "web"}, leavingLine},
		{[]string{"release", "web"}, leavingLine},
		{[]string{"join", "web"}, servedLine},
		{[]string{"release", file}, leavingLine},
		{[]string{"join", "/proc/self/ns/net"}, servedLine},
		{[]string{"release", "--pid", pid}, leavingLine},
		{[]string{"join", "--pid", pid}, servedLine},
	} {
		args := slices.Concat(step.args, []string{"--admin", address})
		if code, stdout, stderr := call(t, args...); code != exitOK || stdout != step.want || stderr != "" {
			t.Errorf("%q: code %d, stdout %q, stderr %q, want %q", args, code, stdout, stderr, step.want)
		}
	}
	var row admin.Workload
	decode(t, &row, "release", "web", "--admin", address, "--output", "json")
	if row.ID != 3 || row.State != admin.WorkloadLeaving || row.Connections != 2 || row.Netns == 0 {
		t.Errorf("JSON: got %+v", row)
	}
}

func TestNamesOfNamespacesAreCompleted(t *testing.T) {
	file := named(t, "web")
	if err := os.WriteFile(filepath.Join(namespaceDirectories[0], "web"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(namespaceDirectories[0], "shop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ words, want []string }{
		{[]string{"release", ""}, []string{"shop", "web"}},
		{[]string{"join", "w"}, []string{"web"}},
		{[]string{"join", "web", ""}, []string{}},
		{[]string{"join", filepath.Dir(file) + "/"}, []string{}},
	} {
		if got := completed(t, tt.words...); !slices.Equal(got, tt.want) {
			t.Errorf("%q: got %q, want %q", tt.words, got, tt.want)
		}
	}
	// The first name that is there counts, and this one is empty.
	code, _, stderr := call(t, "release", "web", "--admin", adminAPI(t))
	if want := filepath.Join(namespaceDirectories[0], "web") + ": not the file of a network namespace"; code != exitRefused || !strings.Contains(stderr, want) {
		t.Errorf("code %d, stderr %q, want %q", code, stderr, want)
	}
}

func TestReleaseSaysWhatHolds(t *testing.T) {
	for _, tt := range []struct {
		name string
		row  admin.Workload
		want string
	}{
		{"served", admin.Workload{State: admin.WorkloadServed, Connections: 5}, "served: new connections are balanced"},
		{"no connection", admin.Workload{State: admin.WorkloadLeaving}, "leaving: no connection is open any more; new ones are not balanced"},
		{"one connection", admin.Workload{State: admin.WorkloadLeaving, Connections: 1}, "leaving: 1 connection is open still; new ones are not balanced"},
		{"excluded", admin.Workload{State: admin.WorkloadExcluded, Why: "label a: \x1b"}, `excluded: "label a: \x1b": nothing of the daemon is in it; new connections are not balanced`},
		{"released", admin.Workload{State: admin.WorkloadReleased}, "released: nothing of the daemon is in it; new connections are not balanced"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := workloadText(&tt.row); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestReleaseSaysWhyTheDaemonDoesNot(t *testing.T) {
	is, err := namespaceOfProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	answer := func(status int, text string) string {
		return serving(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprintln(w, text)
		})
	}
	for _, tt := range []struct {
		name, address string
		code          int
		want          string
	}{
		{"unknown", answer(404, "network namespace 7: no process of a balanced cgroup is in it; do this"), exitRefused, "xlb: network namespace 7: no process of a balanced cgroup is in it; do this\n"},
		{"the daemon's own", answer(400, "network namespace 7: it is the daemon's own; do this"), exitRefused, "xlb: network namespace 7: it is the daemon's own; do this\n"},
		{"at the default address", answer(403, "this is the default address"), exitFailure, ": 403 Forbidden: this is the default address\n"},
		{"it fails", answer(500, "network namespace 7: no room; do this"), exitFailure, fmt.Sprintf(": /xlb/workloads/release?netns=%d: 500 Internal Server Error: network namespace 7: no room; do this\n", is)},
		{"a daemon without the page", answer(404, "404 page not found"), exitFailure, ": 404 Not Found: 404 page not found\n"},
		{"another program", answer(200, "{}"), exitFailure, `: the daemon's answer is not ours: it says "" of a network namespace; use the xlb of the daemon's version` + "\n"},
		{"no JSON", answer(200, "hello"), exitFailure, ": the daemon's answer is not ours: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := call(t, "release", "/proc/self/ns/net", "--admin", tt.address)
			if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("got code %d, stdout %q, stderr %q, want code %d and %q", code, stdout, stderr, tt.code, tt.want)
			}
		})
	}
}

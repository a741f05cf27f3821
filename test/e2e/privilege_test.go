// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// capabilityBits are those of docs/operations.md.
var capabilityBits = map[string]int{
	"CAP_BPF": unix.CAP_BPF, "CAP_NET_ADMIN": unix.CAP_NET_ADMIN, "CAP_PERFMON": unix.CAP_PERFMON,
	"CAP_SYS_ADMIN": unix.CAP_SYS_ADMIN, "CAP_SYS_PTRACE": unix.CAP_SYS_PTRACE,
	"CAP_DAC_READ_SEARCH": unix.CAP_DAC_READ_SEARCH, "CAP_SYS_NICE": unix.CAP_SYS_NICE,
	"CAP_NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE, "CAP_LEASE": unix.CAP_LEASE,
	"CAP_SETUID": unix.CAP_SETUID, "CAP_SETGID": unix.CAP_SETGID, "CAP_CHOWN": unix.CAP_CHOWN, "CAP_KILL": unix.CAP_KILL,
}

// ofDelegate are those that a daemon has with a delegate alone.
var ofDelegate = []string{"CAP_SETUID", "CAP_SETGID", "CAP_CHOWN", "CAP_KILL"}

// documentedCapabilities are those in the first column of the table of docs/operations.md.
func documentedCapabilities(t *testing.T) (all []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "| needs | for |")
	if !found {
		t.Fatal("docs/operations.md has no table of what the daemon needs")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	name := regexp.MustCompile(`CAP_[A-Z_]+`)
	for line := range strings.Lines(table) {
		if row := strings.Split(line, "|"); len(row) > 2 {
			all = append(all, name.FindAllString(row[1], -1)...)
		}
	}
	if len(all) != len(capabilityBits) {
		t.Fatalf("capabilities of docs/operations.md: got %v, want those of %v", all, capabilityBits)
	}
	return all
}

// requireLeast fails unless each thread of a daemon without a delegate has the documented capabilities, but those, and no others, and the log says so.
func requireLeast(t *testing.T, b *harness.Balancer, but ...string) {
	t.Helper()
	requireCapabilities(t, b, append(but, ofDelegate...)...)
}

// requireCapabilities is requireLeast for a daemon with a delegate.
func requireCapabilities(t *testing.T, b *harness.Balancer, but ...string) {
	t.Helper()
	var mask uint64
	var names []string
	for _, name := range documentedCapabilities(t) {
		bit, known := capabilityBits[name]
		if !known {
			t.Fatalf("docs/operations.md has %s, which this test does not know", name)
		}
		if !slices.Contains(but, name) {
			mask |= 1 << bit
			names = append(names, name)
		}
	}
	kept := fmt.Sprintf("%016x", mask)
	none := fmt.Sprintf("%016x", 0)
	want := map[string]string{"CapInh": none, "CapPrm": kept, "CapEff": kept, "CapBnd": kept, "CapAmb": none, "NoNewPrivs": "1"}
	threads := 0
	for _, status := range statuses(t, b) {
		threads++
		for name, value := range want {
			if got := status[name]; got != value {
				t.Errorf("%s of a thread: got %s, want %s (%v)", name, got, value, names)
			}
		}
	}
	if threads < 2 {
		t.Errorf("threads of the daemon: got %d, want several", threads)
	}
	if line := `kept="` + strings.Join(names, ", ") + `"`; !strings.Contains(b.Stderr(), line) {
		t.Errorf("the log does not say %s:\n%s", line, b.Stderr())
	}
}

// statuses has the lines of /proc/PID/task/TID/status for each thread.
func statuses(t *testing.T, b *harness.Balancer) (all []map[string]string) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", b.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // the thread has ended
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := map[string]string{}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
			lines[name] = value
		}
		all = append(all, lines)
	}
	return all
}

// hide has the directory of the daemon's file read by root's capabilities alone: it is another user's.
func hide(t *testing.T, b *harness.Balancer) {
	t.Helper()
	const nobody = 65534
	dir := filepath.Dir(b.File())
	if err := errors.Join(os.Chmod(dir, 0o700), os.Chown(dir, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
}

// What the daemon drops at its start it does not need later: it follows its file, which another user may hide, serves a pod that comes, and makes place for a
// second daemon.
func TestTheDaemonKeepsTheCapabilitiesThatItUses(t *testing.T) {
	harness.OnlyXLB(t, "Envoy needs no capabilities")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		node := harness.NewNode(t)
		client := node.Pod(t)
		var endpoints []netip.AddrPort
		for _, identity := range []string{"a", "b", "c"} {
			endpoints = append(endpoints, originOf(t, node.Pod(t), identity, false))
		}
		client.Greeter(t, "resident")
		balancer := harness.Start(t, mode, harness.OneCluster(podService, endpoints[:2]...), node.Place)
		requireLeast(t, balancer)
		requireWorkloads(t, balancer, 4)
		load := client.Program(t, programs.LoadProgram, programs.LoadSpec{Address: podService.String(), Connections: 2})
		awaitRequests(t, load, 500)

		hide(t, balancer)
		balancer.Reload(t, harness.OneCluster(podService, endpoints[2]))
		harness.Eventually(t, patience, "the new file's server serves", func() bool { return report(t, load).Served[0]["c"] > 0 })

		late := node.Pod(t)
		late.Greeter(t, "resident")
		// It is known by its first connection, which goes where the address leads.
		late.Program(t, programs.LoadProgram, programs.LoadSpec{Address: podService.String(), Requests: 1, Timeout: patience})
		requireWorkloads(t, balancer, 5)
		answered := runLoad(t, late.Place, programs.LoadSpec{Address: podService.String(), Requests: 500, Asks: []programs.Ask{{Path: "/from"}}})
		requireEach(t, &answered, late.Address, 500, "c")
		requireLeast(t, balancer)

		second := harness.Start(t, mode, harness.OneCluster(podService, endpoints[2]), node.Place)
		balancer.Terminate(t)
		if code := balancer.Wait(t, patience); code != 0 {
			t.Errorf("exit code of the daemon that was replaced: %d", code)
		}
		awaitRequests(t, load, 500)
		requireLeast(t, second)
		var final programs.LoadReport
		load.Finish(t, &final)
		requireClean(t, final)
		requireNoWarnings(t, balancer)
		requireNoWarnings(t, second)
	})
}

// requireNoWarnings fails if the daemon has logged a warning or an error, as of what it could not do.
func requireNoWarnings(t *testing.T, b *harness.Balancer) {
	t.Helper()
	for line := range strings.Lines(b.Stderr()) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			t.Errorf("the daemon has logged: %s", line)
		}
	}
}

// A daemon that serves its own network namespace alone may not enter others.
func TestADaemonOfOneNamespaceKeepsFewerCapabilities(t *testing.T) {
	harness.OnlyXLB(t, "Envoy needs no capabilities")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.SameHost(t)
		_, addresses := origins(t, place, "a", "b")
		service := harness.Service()
		config := harness.OneCluster(service, addresses...)
		config.Arguments = []string{"--namespaces=own"}
		balancer := harness.Start(t, mode, config, place)
		load := runLoad(t, place, programs.LoadSpec{Address: service.String(), Requests: 1000})
		requireClean(t, load)
		requireLeast(t, balancer, "CAP_SYS_ADMIN", "CAP_SYS_PTRACE")
		balancer.RequireFast(t, mode, 0.9)
		requireNoWarnings(t, balancer)
	})
}

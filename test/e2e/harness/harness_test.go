// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/xlb-project/xlb/test/hostile/traffic"
	"github.com/xlb-project/xlb/test/violation"
)

func TestMain(m *testing.M) {
	os.Exit(Main(m))
}

// recorder is a testing.TB that keeps failures instead of failing.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// attachHook attaches a program that allows every connect.
func attachHook(t *testing.T, place *Place) (*ebpf.Program, link.Link) {
	t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.CGroupSockAddr, AttachType: ebpf.AttachCGroupInet4Connect, License: "Apache-2.0",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := link.AttachCgroup(link.CgroupOptions{Path: place.Cgroup(), Attach: ebpf.AttachCGroupInet4Connect, Program: program})
	if err != nil {
		t.Fatal(err)
	}
	return program, l
}

func TestAttachedProgramIsNoticed(t *testing.T) {
	place := SameHost(t)
	if found := place.Attached(t); len(found) != 0 {
		t.Fatalf("attached to a new cgroup: %q", found)
	}
	program, l := attachHook(t, place)
	defer program.Close()
	if found := place.Attached(t); len(found) != 1 {
		t.Errorf("one program is attached, noticed %q", found)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if found := place.Attached(t); len(found) != 0 {
		t.Errorf("nothing is attached any more, noticed %q", found)
	}
}

func TestSurvivingKernelObjectIsNoticed(t *testing.T) {
	program, l := attachHook(t, SameHost(t))
	// The program of this test stands for one that a daemon left.
	objects := kernelObjects(t, os.Getpid())
	kinds := map[string]bool{}
	for _, o := range objects {
		kinds[o.kind] = true
		if o.gone() {
			t.Errorf("%s %d is alive and taken for gone", o.kind, o.id)
		}
	}
	if !kinds["prog_id"] || !kinds["link_id"] {
		t.Errorf("objects of the process: got %v, want a program and a link", objects)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := program.Close(); err != nil {
		t.Fatal(err)
	}
	r := &recorder{TB: t}
	checkNothingLeft(r, objects, pins(t))
	if len(r.failures) != 0 {
		t.Errorf("everything is closed, noticed %q", r.failures)
	}
}

func TestForeignByteIsReportedBehindExchangesThatTookLong(t *testing.T) {
	all := slices.Repeat([]traffic.Violation{{What: "an exchange that hangs", Timed: true}}, 2*shownViolations)
	r := &recorder{TB: t}
	ReportViolations(r, all)
	if text := strings.Join(r.failures, "\n"); len(r.failures) == 0 || strings.Contains(text, violation.Marker) {
		t.Errorf("exchanges that took long: got %q, want failures and no violation", text)
	}
	r = &recorder{TB: t}
	ReportViolations(r, append(all, traffic.Violation{What: "an exchange that hangs", Timed: true, Foreign: "another's"}))
	if text := strings.Join(r.failures, "\n"); !strings.Contains(text, violation.Marker) || !strings.Contains(text, "another's") {
		t.Errorf("another's byte behind them: got %q, want a violation", text)
	}
}

func TestOrphanIsNoticedAndKilled(t *testing.T) {
	place := SameHost(t)
	// The shell ends and leaves its child behind.
	place.Run(t, "/bin/sh", "-c", "sleep 60 >/dev/null 2>&1 </dev/null &").Wait(t, 5*time.Second)
	r := &recorder{TB: t}
	place.cgroup.checkEmpty(r, time.Second)
	if len(r.failures) != 1 || !strings.Contains(r.failures[0], "outlive") {
		t.Errorf("an orphan lives, noticed %q", r.failures)
	}
	if err := os.WriteFile(place.Cgroup()+"/cgroup.kill", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
}

func TestSamplesAddUpByNameAndLabel(t *testing.T) {
	const text = `# TYPE xlb_requests_total counter
xlb_requests_total{path="fast"} 12
xlb_requests_total{path="slow",listener="a"} 3
xlb_requests_total{path="slow",listener="b"} 4 1700000000
xlb_requests_total_more 100
xlb_leases_active 5
`
	tests := []struct {
		name   string
		labels []string
		want   float64
	}{
		{"xlb_requests_total", nil, 19},
		{"xlb_requests_total", []string{`path="slow"`}, 7},
		{"xlb_requests_total", []string{`path="slow"`, `listener="b"`}, 4},
		{"xlb_leases_active", nil, 5},
		{"xlb_spills_total", nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name+strings.Join(tt.labels, ","), func(t *testing.T) {
			got, err := sumSamples(text, tt.name, tt.labels)
			if err != nil || got != tt.want {
				t.Errorf("got %v and error %v, want %v", got, err, tt.want)
			}
		})
	}
	if !hasMetric(text, "xlb_requests_total") || hasMetric(text, "xlb_requests") || hasMetric(text, "xlb_leases_total") {
		t.Error("metrics are told apart by other things than their whole names")
	}
	if _, err := sumSamples("xlb_spills_total much\n", "xlb_spills_total", nil); err == nil {
		t.Error("a value that is no number passes")
	}
}

func TestTwoHostsReachEachOtherAndNothingElse(t *testing.T) {
	clients, servers := TwoHosts(t)
	origin := servers.Origin(t, "server")
	// A connect that loses its first segment takes longer than accepts waits.
	Eventually(t, 30*time.Second, "the client's host reaches the server's", func() bool { return clients.accepts(origin.Address) })
	if SameHost(t).accepts(origin.Address) {
		t.Error("the test's own namespace reaches the server's host")
	}
}

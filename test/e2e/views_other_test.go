// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// Addresses that listeners of some kinds have in views.
var (
	tcpService = netip.MustParseAddrPort("10.96.0.91:3306")
)

// allKinds is a configuration of a view in which all names are the same, whatever view it is: HTTP, a listener that is another's endpoint, one without HTTP, and a
// cluster that a header names. The last one of the clusters has a name of the view's own.
func (v *viewers) allKinds(view string) harness.Config {
	type m = map[string]any
	server := func(cluster string) harness.Cluster {
		return harness.Cluster{Name: cluster, Endpoints: []netip.AddrPort{v.servers[view+" a"]}}
	}
	table := m{"name": "table", "virtual_hosts": []any{m{"name": "all", "domains": []any{"*"}, "routes": []any{
		m{"match": m{"prefix": "/inner/"}, "route": m{"cluster": "inner", "prefix_rewrite": "/"}},
		m{"match": m{"prefix": "/named/"}, "route": m{"cluster_header": "x-to", "prefix_rewrite": "/"}},
		m{"match": m{"prefix": "/"}, "route": m{"cluster": "origins"}},
	}}}}
	c := harness.Config{
		Listeners: []harness.Listener{
			{Address: podService, Table: table},
			{Address: onlyService, Hosts: []harness.VirtualHost{{Routes: []harness.Route{{Clusters: harness.To("origins")}}}}},
			{Address: tcpService, TCP: m{"cluster": "origins"}},
		},
		Clusters: []harness.Cluster{server("origins"), server("only-" + view), {Name: "inner", Endpoints: []netip.AddrPort{onlyService}}},
	}
	return c
}

// firstAnswer has a pod send a request with more lines of its head, and returns who answers it, and with what.
func firstAnswer(t *testing.T, place *harness.Place, to netip.AddrPort, path string, lines ...string) string {
	t.Helper()
	head := "GET " + path + " HTTP/1.1\r\nHost: e2e.test\r\n" + strings.Join(append(lines, "", ""), "\r\n")
	report := runExchange(t, place, to, patience, programs.Step{Send: head}, programs.Step{Receive: true})
	if len(report.Replies) != 1 {
		return fmt.Sprintf("%+v", report)
	}
	return fmt.Sprint(report.Replies[0].Status, " ", report.Replies[0].Identity)
}

// residentOf is the only process of a pod.
func residentOf(t *testing.T, pod *harness.Pod) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(pod.Cgroup(), "cgroup.procs"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// moveInto moves a process to a pod's cgroup.
func moveInto(t *testing.T, pod *harness.Pod, pid int) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(pod.Cgroup(), "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		t.Fatal(err)
	}
}

// Whatever kind of listener a connection comes to, and however its cluster is named, it leads to its own view's servers.
func TestListenersOfAllKindsAreTheirViewsOwn(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		v := newViewers(t, 2)
		for i := range v.views {
			v.views[i].Config = v.allKinds(v.views[i].Name)
		}
		v.start(t, mode)
		for i, pod := range v.pods[:2] {
			own, other := fmt.Sprintf("view%d", i), fmt.Sprintf("view%d", 1-i)
			for _, tt := range []struct {
				name, path, line, want string
				to                     netip.AddrPort
			}{
				{"by a route", "/", "", "200 " + own + " a", podService},
				{"by another listener", "/inner/", "", "200 " + own + " a", podService},
				{"by a header", "/named/", "x-to: origins", "200 " + own + " a", podService},
				{"by a header, to its view's own cluster", "/named/", "x-to: only-" + own, "200 " + own + " a", podService},
				{"by a header, to another view's cluster", "/named/", "x-to: only-" + other, "503 ", podService},
				{"by a header, to another view's cluster as it is shown", "/named/", "x-to: " + other + "/origins", "503 ", podService},
				{"without HTTP", "/", "", "200 " + own + " a", tcpService},
			} {
				var lines []string
				if tt.line != "" {
					lines = append(lines, tt.line)
				}
				for range 3 {
					if got := firstAnswer(t, pod.Place, tt.to, tt.path, lines...); got != tt.want {
						t.Errorf("pod %d, %s: got %s, want %s", i, tt.name, got, tt.want)
					}
				}
			}
		}
		if got := firstAnswer(t, v.pods[2].Place, podService, "/"); got != "200 shared a" {
			t.Errorf("a pod without a view: got %s", got)
		}
	})
}

// A pod whose process has gone over to another cgroup sees the other view from when it has been released and joined on. A connection that was open stays with the
// listener that it came to, and what the first view's listeners have left idle serves no request of the second one.
func TestAPodThatIsJoinedAgainSeesAnotherView(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		v := newViewers(t, 2)
		for i := range v.views {
			v.views[i].Config = v.allKinds(v.views[i].Name)
		}
		balancer := v.start(t, mode)
		pod, resident := v.pods[0], residentOf(t, v.pods[0])
		open := pod.Program(t, programs.LoadProgram, programs.LoadSpec{Address: podService.String(), Asks: []programs.Ask{{Path: "/inner/from"}}, Pause: 1e6})
		awaitAnswers(t, []*harness.Process{open}, 5)
		for range 5 {
			if got := firstAnswer(t, pod.Place, podService, "/inner/"); got != "200 view0 a" {
				t.Fatalf("before: got %s", got)
			}
		}
		moveInto(t, v.pods[1], resident)
		// Each cgroup ends with its own processes.
		defer moveInto(t, pod, resident)
		changeWorkload(t, balancer, v.node.Place, "release", resident)
		changeWorkload(t, balancer, v.node.Place, "join", resident)
		for _, path := range []string{"/inner/", "/", "/inner/"} {
			for range 10 {
				if got := firstAnswer(t, pod.Place, podService, path); got != "200 view1 a" {
					t.Errorf("%s with another view: got %s", path, got)
				}
			}
		}
		awaitProgress(t, []*harness.Process{open}, 10)
		var report programs.LoadReport
		open.Finish(t, &report)
		requireClean(t, report)
		if got := report.Served[0]; len(got) != 1 || got[fmt.Sprintf("view0 a from %s", pod.Address)] == 0 {
			t.Errorf("the connection that stayed open: got answers %v, want those of the view that it began with", got)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/test/await"
)

func TestWorkloadsAreListed(t *testing.T) {
	tests := []struct {
		name string
		list []Workload
		want string
	}{
		{"no workload is an empty list", nil, "[]\n"},
		{"what is not known is left out", []Workload{{Netns: 4026531840, Cookie: 1, State: WorkloadServed}, {ID: 2, Netns: 4026532301, Cookie: 5, PID: 4711, Path: "/run/netns/web", State: WorkloadLeaving, Connections: 3}},
			`[{"id":0,"netns":4026531840,"cookie":1,"state":"served","connections":0,"requests":0,"request_bytes":0,"response_bytes":0,"slow_work_seconds":0,"program_seconds":0,"account":0},` +
				`{"id":2,"netns":4026532301,"cookie":5,"pid":4711,"path":"/run/netns/web","state":"leaving","connections":3,"requests":0,"request_bytes":0,"response_bytes":0,"slow_work_seconds":0,"program_seconds":0,"account":0}]`},
		{"all that is known", []Workload{{
			ID: 4, Name: "shop/web-1", Netns: 4026532302, Cookie: 6, Runtime: "containerd", Container: "c0ffee", PodUID: "0f3b", PodNamespace: "shop", Pod: "web-1",
			State: WorkloadExcluded, Why: "label:none",
		}},
			`[{"id":4,"name":"shop/web-1","netns":4026532302,"cookie":6,"runtime":"containerd","container":"c0ffee","pod_uid":"0f3b","pod_namespace":"shop","pod":"web-1",` +
				`"state":"excluded","why":"label:none","connections":0,"requests":0,"request_bytes":0,"response_bytes":0,"slow_work_seconds":0,"program_seconds":0,"account":0}]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, body := ask(t, &state{workloads: tt.list}, "GET", WorkloadsPath)
			if compact := strings.NewReplacer("\n", "", " ", "").Replace(body); status != 200 || compact != strings.TrimSpace(tt.want) {
				t.Errorf("got %d %s, want %s", status, compact, tt.want)
			}
		})
	}
}

func TestWorkloadsAreReleasedAndJoined(t *testing.T) {
	const row = "{\n \"id\": 3,\n \"netns\": 4026532301,\n \"cookie\": 9,\n \"state\": \"%s\",\n \"connections\": 2,\n \"requests\": 0,\n \"request_bytes\": 0,\n \"response_bytes\": 0,\n \"slow_work_seconds\": 0,\n \"program_seconds\": 0,\n \"account\": 0\n}\n"
	failing := errors.New("open anchor listener on 127.0.0.1: the loopback interface is down")
	tests := []struct {
		name, method, target string
		failure              error
		status               int
		want                 string
		changed              []string
	}{
		{"release", "POST", "/xlb/workloads/release?netns=4026532301", nil, 200, fmt.Sprintf(row, "leaving"), []string{"release 4026532301"}},
		{"join", "POST", "/xlb/workloads/join?netns=4026532301", nil, 200, fmt.Sprintf(row, "served"), []string{"join 4026532301"}},
		{"the daemon's own", "POST", "/xlb/workloads/release?netns=7", fmt.Errorf("release: %w", ErrOwnWorkload), 400,
			"network namespace 7: release: it is the daemon's own; start the daemon with --namespaces=others to leave it alone, or with --namespaces=all to have it balanced\n", []string{"release 7"}},
		{"unknown", "POST", "/xlb/workloads/join?netns=7", ErrUnknownWorkload, 404,
			"network namespace 7: no process of a balanced cgroup is in it; \"xlb get workloads\" lists those that the daemon knows, none but its own with --namespaces=own; \"lsns -t net\" lists all\n",
			[]string{"join 7"}},
		{"it fails", "POST", "/xlb/workloads/join?netns=7", failing, 500,
			"network namespace 7: open anchor listener on 127.0.0.1: the loopback interface is down; \"xlb get workloads\" says what holds now, and the daemon's log may say more; correct the cause, and try again\n",
			[]string{"join 7"}},
		{"no namespace", "POST", "/xlb/workloads/release", nil, 400,
			"parameter \"netns\": missing; name a network namespace by its inode number, as in /xlb/workloads/release?netns=4026531840\n", nil},
		{"a name", "POST", "/xlb/workloads/join?netns=web", nil, 400,
			"parameter \"netns\": \"web\" is not an inode number; want that of a network namespace, as readlink /proc/PID/ns/net shows it\n", nil},
		{"zero", "POST", "/xlb/workloads/join?netns=0", nil, 400,
			"parameter \"netns\": \"0\" is not an inode number; want that of a network namespace, as readlink /proc/PID/ns/net shows it\n", nil},
		{"twice", "POST", "/xlb/workloads/join?netns=1&netns=2", nil, 400, "parameter \"netns\": given 2 times; give it once\n", nil},
		{"another parameter", "POST", "/xlb/workloads/join?netns=1&pid=2", nil, 400, "parameter \"pid\": unknown; /xlb/workloads/join takes netns\n", nil},
		{"by GET", "GET", "/xlb/workloads/release?netns=7", nil, 405, "Method Not Allowed\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &state{failure: tt.failure}
			status, body := ask(t, s, tt.method, tt.target)
			if status != tt.status || body != tt.want || !slices.Equal(s.changed, tt.changed) {
				t.Errorf("got %d %q and calls %q, want %d %q and %q", status, body, s.changed, tt.status, tt.want, tt.changed)
			}
		})
	}
}

// slow is a Source that releases a workload when it may.
type slow struct {
	state
	started, resume chan struct{}
}

func (s *slow) ReleaseWorkload(netns uint64) (Workload, error) {
	s.started <- struct{}{}
	<-s.resume
	return Workload{Netns: netns, State: WorkloadReleased}, nil
}

// The daemon may look at all processes before it answers.
func TestAReleaseThatTakesLongHoldsNoOtherPageUp(t *testing.T) {
	s := &slow{started: make(chan struct{}, 1), resume: make(chan struct{})}
	h := NewHandler(s, http.NotFoundHandler())
	get := func(method, target string) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, target, nil))
		return w.Code
	}
	released := make(chan int, 1)
	go func() { released <- get(http.MethodPost, ReleaseWorkloadPath+"?netns=7") }()
	await.Next(t, s.started, "the release begins")
	for _, page := range []string{"/ready", "/stats", "/xlb/clusters", WorkloadsPath} {
		answered := make(chan int, 1)
		go func() { answered <- get(http.MethodGet, page) }()
		if status := await.Next(t, answered, page+" answers"); status != http.StatusOK {
			t.Errorf("%s: got %d", page, status)
		}
	}
	close(s.resume)
	if status := await.Next(t, released, "the release ends"); status != http.StatusOK {
		t.Errorf("release: got %d", status)
	}
}

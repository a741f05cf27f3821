// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/xlb-project/xlb/internal/admin"
)

// podDaemon is a daemon whose workloads a test sets.
type podDaemon struct {
	daemon
	workloads []admin.Workload
}

func (d podDaemon) Workloads() []admin.Workload { return d.workloads }

// podAPI serves the admin API of a daemon that knows this process's network namespace as one more, which a function completes.
func podAPI(t *testing.T, complete func(w *admin.Workload)) string {
	t.Helper()
	is, err := namespaceOfProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	w := admin.Workload{ID: 3, Name: "test/this", Netns: is, PodNamespace: "test", Pod: "this", PodUID: "this-uid", State: admin.WorkloadServed}
	if complete != nil {
		complete(&w)
	}
	return workloadAPI(t, append(daemon{}.Workloads(), w)...)
}

func workloadAPI(t *testing.T, list ...admin.Workload) string {
	t.Helper()
	server := httptest.NewServer(admin.NewHandler(podDaemon{daemon{new(slog.LevelVar), new(atomic.Bool)}, list}, http.NotFoundHandler()))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestPodsAreReleasedAndJoined(t *testing.T) {
	excluded := func(w *admin.Workload) {
		w.State, w.Why = admin.WorkloadExcluded, "label istio.io/dataplane-mode: none"
	}
	for _, tt := range []struct {
		name     string
		complete func(w *admin.Workload)
	}{{"served", nil}, {"excluded by its labels", excluded}} {
		t.Run(tt.name, func(t *testing.T) {
			address := podAPI(t, tt.complete)
			for _, step := range []struct{ verb, pod, want string }{
				{"join", "test/this", servedLine},
				{"release", "test/this", leavingLine},
				{"join", "this-uid", servedLine},
				{"release", "this-uid", leavingLine},
			} {
				if code, stdout, stderr := call(t, step.verb, "--pod", step.pod, "--admin", address); code != exitOK || stdout != step.want || stderr != "" {
					t.Errorf("%s --pod %s: code %d, stdout %q, stderr %q, want %q", step.verb, step.pod, code, stdout, stderr, step.want)
				}
			}
		})
	}
}

func TestPodThatIsNotOneWorkloadIsToldSo(t *testing.T) {
	const remedy = `; "xlb get workloads" lists what it knows, and --pid names the network namespace of any process`
	all := daemon{}.Workloads()
	nameless := []admin.Workload{{Name: "host", Netns: 1, State: admin.WorkloadServed}, {ID: 1, Netns: 2, PodUID: webUID, State: admin.WorkloadServed}}
	many := slices.Repeat(all[4:5], 9)
	for _, tt := range []struct {
		name, pod string
		list      []admin.Workload
		want      string
	}{
		{"no such name", "shop/none", all, `--pod "shop/none": the daemon knows no pod of this name` + remedy},
		{"a name in another namespace", "mall/cart-0", all, `--pod "mall/cart-0": the daemon knows no pod of this name` + remedy},
		{"a part of a name", "shop/cart", all, `--pod "shop/cart": the daemon knows no pod of this name` + remedy},
		{"no such UID", "cart-0", all, `--pod "cart-0": the daemon knows no pod with this UID; a name needs its namespace, as in shop/web` + remedy},
		{"no names at all", "shop/web", nameless,
			`--pod "shop/web": the daemon knows no pod by its name: names come from the container runtime's NRI (xlb run --nri); give the pod's UID` + remedy},
		{"no workloads", "shop/web", nil,
			`--pod "shop/web": the daemon knows no pod by its name: names come from the container runtime's NRI (xlb run --nri); give the pod's UID` + remedy},
		{"a pod of the same name that leaves", "shop/cart-0", all,
			`--pod "shop/cart-0": 2 workloads are of such a pod: 5 (leaving, UID ` + cartUID + `, PID 4912), 6 (served, UID ` + webUID + `-2); name one by the pod's UID, or by --pid`},
		{"many", "shop/cart-0", many, "9 workloads are of such a pod: " + strings.Repeat("5 (leaving, UID "+cartUID+", PID 4912), ", 4) + "5 more; name one by the pod's UID, or by --pid"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			address := workloadAPI(t, tt.list...)
			for _, args := range [][]string{{"release"}, {"join"}, {"explain", "GET", "http://127.80.0.1:8080/"}} {
				code, stdout, stderr := call(t, append(args, "--pod", tt.pod, "--admin", address)...)
				if code != exitRefused || stdout != "" || !strings.HasSuffix(stderr, tt.want+"\n") || strings.Count(stderr, "\n") != 1 {
					t.Errorf("%s: code %d, stdout %q, stderr %q, want %q", args[0], code, stdout, stderr, tt.want)
				}
			}
		})
	}
}

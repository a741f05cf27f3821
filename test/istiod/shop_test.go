// SPDX-License-Identifier: Apache-2.0

package istiod

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// The listeners of XLB and of Envoy (testdata/shop.yaml).
const (
	atXLB   = "127.82.1.1:9080"
	atEnvoy = "127.82.1.2:9080"
)

const (
	shop = "shop.default.svc.cluster.local"
	// patience bounds the time from a change of istiod's files to its effect: 50 ms of the file watch, 100 ms of istiod's debounce.
	patience = time.Minute
)

// upstream leaves out Istio's own filters, which Envoy as it is published does not have.
var upstream = []string{"PILOT_ENABLE_METADATA_EXCHANGE=false", "PILOT_ENABLE_ALPN_FILTER=false"}

// world is a mesh with its three servers, and XLB and Envoy in it.
type world struct {
	*control
	a, b, c *origin
	place   *harness.Place
	// xlb and envoy are their sidecars.
	xlb, envoy *harness.Balancer
}

func newWorld(t *testing.T, mode harness.Mode) *world {
	t.Helper()
	w := &world{place: harness.SameHost(t), a: newOrigin(t, "a"), b: newOrigin(t, "b"), c: newOrigin(t, "c")}
	w.join(t, mode)
	return w
}

// join runs istiod, and XLB and Envoy under it, for the servers that there are.
func (w *world) join(t *testing.T, mode harness.Mode) {
	t.Helper()
	w.control = startIstiod(t, w.place, emptyKubernetes(t), "testdata/mesh.yaml", true, slices.Concat(upstream, newAuthority(t))...)
	w.configure(t, "shop.yaml", w.values(t))
	harness.Eventually(t, patience, "istiod has read its files", func() bool { return len(w.log.lines("Full push, new service")) > 0 })
	w.xlb = harness.Start(t, mode, w.bootstrap("xlb"), w.place)
	w.envoy = harness.StartEnvoy(t, w.bootstrap("envoy"), w.place)
	for _, to := range []string{atXLB, atEnvoy} {
		w.await(t, to, request{"GET", shop, "/", ""}, func(r programs.Reply) bool { return r.Status == http.StatusOK })
	}
}

func (w *world) values(t *testing.T) map[string]string {
	return map[string]string{"A": w.a.port, "B": w.b.port, "C": w.c.port, "NOBODY": fmt.Sprint(w.place.FreePort(t))}
}

// await asks until the answer is as wanted.
func (w *world) await(t *testing.T, to string, r request, wanted func(programs.Reply) bool) {
	t.Helper()
	harness.Eventually(t, patience, to+" answers as wanted", func() bool {
		var report programs.ExchangeReport
		w.place.Program(t, programs.ExchangeProgram, programs.ExchangeSpec{
			Address: to, Timeout: time.Second, Steps: []programs.Step{{Send: r.wire()}, {Receive: true}},
		}).Next(t, &report)
		return len(report.Replies) == 1 && wanted(report.Replies[0])
	})
}

// requests have one answer each, whoever balances.
var requests = []request{
	{"GET", shop, "/", ""},
	{"GET", "shop", "/", ""},
	{"GET", "shop.default:9080", "/", ""},
	{"GET", "SHOP.default.svc", "/", ""},
	{"GET", "240.0.0.10", "/", ""},
	{"POST", shop, "/", "Content-Length: 0\r\n"},
	{"GET", shop, "/", "end-user: jason\r\n"},
	{"GET", shop, "/", "end-user: jasonx\r\n"},
	{"GET", shop, "/", "x-canary: v2beta\r\nx-tenant: gold-1\r\n"},
	{"GET", shop, "/", "x-canary: v1beta\r\nx-tenant: gold-1\r\n"},
	{"GET", shop, "/", "x-canary: v2beta\r\nx-tenant: gold-1\r\nx-legacy: 1\r\n"},
	{"GET", shop, "/items/17", ""},
	{"GET", shop, "/items/17x", ""},
	{"POST", shop, "/items/17", "Content-Length: 0\r\n"},
	{"GET", shop, "/search?debug=true", ""},
	{"GET", shop, "/search?debug=false", ""},
	{"GET", shop, "/search?x=1&debug=true", ""},
	{"GET", shop, "/a/../items/5", ""},
	{"GET", shop, "//items//5", ""},
	{"GET", shop, "/items%2f5", ""},
	{"GET", shop, "/v1/old?q=1", "x-gone: 1\r\nx-set: 0\r\nx-added: 0\r\n"},
	{"GET", shop, "/redir/x?q=1", ""},
	{"GET", shop, "/direct", ""},
	{"GET", shop, "/timeout?wait=900ms", ""},
	{"GET", shop, "/timeout", ""},
	{"GET", shop, "/abort", ""},
	{"GET", shop, "/delay", ""},
	{"GET", shop, "/mirror", ""},
	{"GET", "nobody.default.svc.cluster.local", "/", ""},
}

func TestRequestsAreAnsweredAsByEnvoy(t *testing.T) {
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		w := newWorld(t, mode)
		keep(t, w.xlb, "istiod-1.31-upstream")
		t.Run("dump", func(t *testing.T) { compareDumps(t, w) })
		t.Run("istioctl", func(t *testing.T) { compareIstioctl(t, w) })
		t.Run("synced", func(t *testing.T) { requireSynced(t, w) })
		t.Run("one by one", func(t *testing.T) { compareAnswers(t, w) })
		t.Run("retries", func(t *testing.T) { compareRetries(t, w) })
		t.Run("shares", func(t *testing.T) { compareShares(t, w) })
		t.Run("hashes", func(t *testing.T) { compareHashes(t, w) })
		t.Run("change", func(t *testing.T) { followChange(t, w) })
		t.Run("nothing changes", func(t *testing.T) { pushTheSame(t, w) })
		t.Run("synced again", func(t *testing.T) { requireSynced(t, w) })
		if refused := w.log.lines("ACK ERROR"); len(refused) > 0 {
			t.Errorf("istiod was told:\n%s", strings.Join(refused, ""))
		}
	})
}

func compareAnswers(t *testing.T, w *world) {
	before := w.b.count("/mirror")
	for _, r := range requests {
		got, want := ask(t, w.place, atXLB, r)[0], ask(t, w.place, atEnvoy, r)[0]
		if got.Status != want.Status || got.Identity != want.Identity || got.Body != want.Body || !slices.Equal(got.Fields, want.Fields) {
			t.Errorf("%s: XLB answers %d of %q %v %q, Envoy %d of %q %v %q", strings.TrimSpace(r.wire()),
				got.Status, got.Identity, got.Fields, got.Body, want.Status, want.Identity, want.Fields, want.Body)
		}
		t.Logf("%s %s%s: %d %s", r.method, r.service, r.path, got.Status, got.Identity)
	}
	harness.Eventually(t, patience, "b has a copy of each mirrored request", func() bool { return w.b.count("/mirror") == before+2 })
}

func compareRetries(t *testing.T, w *world) {
	for _, c := range []struct {
		fail, want int
	}{{0, 200}, {1, 200}, {3, 200}, {4, 503}} {
		for _, to := range []string{atXLB, atEnvoy} {
			key := fmt.Sprintf("%s-%d-%s", to, c.fail, w.xlb.Mode.Name)
			before := w.a.count("/retry")
			reply := ask(t, w.place, to, request{"GET", shop, "/retry", fmt.Sprintf("x-key: %s\r\nx-fail: %d\r\n", key, c.fail)})[0]
			if attempts := w.a.count("/retry") - before; reply.Status != c.want || attempts != min(c.fail, 3)+1 {
				t.Errorf("%s, %d failures: answers %d after %d attempts", to, c.fail, reply.Status, attempts)
			}
		}
	}
	// What Istio gives every route: an endpoint that is not there is not noticed.
	for _, to := range []string{atXLB, atEnvoy} {
		for _, reply := range ask(t, w.place, to, times(20, request{"GET", "half.default.svc.cluster.local", "/", ""})...) {
			if reply.Status != http.StatusOK || reply.Identity != "a" {
				t.Errorf("%s: one of two endpoints is down: %d of %q", to, reply.Status, reply.Identity)
			}
		}
	}
}

func compareShares(t *testing.T, w *world) {
	const n = 400
	for _, to := range []string{atXLB, atEnvoy} {
		got := map[string]int{}
		for _, reply := range ask(t, w.place, to, times(n, request{"GET", shop, "/weighted", ""})...) {
			got[reply.Identity]++
		}
		t.Logf("%s: %v of 80:20", to, got)
		// Five standard deviations of a draw.
		if got["a"]+got["b"] != n || got["b"] < n/5-40 || got["b"] > n/5+40 {
			t.Errorf("%s: %v of %d, want 80:20", to, got, n)
		}
	}
}

func compareHashes(t *testing.T, w *world) {
	for user := range 20 {
		r := request{"GET", "sticky.default.svc.cluster.local", "/", fmt.Sprintf("x-user: user-%d\r\n", user)}
		got, want := ask(t, w.place, atXLB, times(2, r)...), ask(t, w.place, atEnvoy, r)[0]
		if got[0].Identity != want.Identity || got[1].Identity != want.Identity || got[0].Status != http.StatusOK {
			t.Errorf("user %d: XLB takes %q and %q, Envoy %q", user, got[0].Identity, got[1].Identity, want.Identity)
		}
	}
}

// followChange exchanges the endpoints of both subsets.
func followChange(t *testing.T, w *world) {
	r := request{"GET", shop, "/", ""}
	values := w.values(t)
	for _, want := range []string{"b", "a"} {
		values["A"], values["B"] = values["B"], values["A"]
		w.configure(t, "shop.yaml", values)
		for _, to := range []string{atXLB, atEnvoy} {
			w.await(t, to, r, func(reply programs.Reply) bool { return reply.Status == http.StatusOK && reply.Identity == want })
		}
	}
}

// pushTheSame has istiod send clusters and listeners anew though nothing about them has changed, as it does at every full push: nothing is written.
func pushTheSame(t *testing.T, w *world) {
	answered := func() float64 { return w.xlb.Metric(t, "envoy_listener_manager_lds_update_success") }
	writes := w.xlb.Metric(t, "xlb_dynamic_writes_total")
	for n := range 5 {
		before := answered()
		w.configure(t, "stranger.yaml", map[string]string{"N": fmt.Sprint(n)})
		harness.Eventually(t, patience, "istiod has pushed all, and XLB has answered", func() bool { return answered() > before })
	}
	if n := w.xlb.Metric(t, "xlb_dynamic_writes_total") - writes; n != 0 {
		t.Errorf("five pushes of what was there have written %v times", n)
	}
}

// compareDumps holds that /config_dump says of clusters, listeners and routes what Envoy's says, in the same form: istioctl reads it.
func compareDumps(t *testing.T, w *world) {
	lists := []string{"dynamic_active_clusters", "dynamic_listeners", "dynamic_route_configs"}
	got, want := dumped(t, w.xlb, lists, "127.82.1.1"), dumped(t, w.envoy, lists, "127.82.1.2")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("/config_dump differs from Envoy's (-Envoy +XLB):\n%s", diff)
	}
}

// dumped are lists of /config_dump, each in an order of its own, without times and what Envoy keeps for CSDS; service is called SERVICE.
func dumped(t *testing.T, b *harness.Balancer, lists []string, service string) map[string][]string {
	t.Helper()
	var dump struct{ Configs []map[string]json.RawMessage }
	if err := json.Unmarshal([]byte(strings.ReplaceAll(b.Get(t, "/config_dump"), service, "SERVICE")), &dump); err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, config := range dump.Configs {
		for _, list := range lists {
			var all []object
			if config[list] == nil || json.Unmarshal(config[list], &all) != nil {
				continue
			}
			for _, one := range all {
				state, _ := one["active_state"].(object)
				for _, o := range []object{one, state} {
					for _, field := range []string{"last_updated", "version_info", "client_status", "error_state"} {
						delete(o, field)
					}
				}
				text, err := json.MarshalIndent(one, "", " ")
				if err != nil {
					t.Fatal(err)
				}
				out[list] = append(out[list], string(text))
			}
			slices.Sort(out[list])
		}
	}
	return out
}

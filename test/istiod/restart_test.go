// SPDX-License-Identifier: Apache-2.0

package istiod

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// restarts are the ways in which one daemon takes the place of another.
var restarts = []struct {
	name string
	// overlap: the new one starts while the old one serves.
	overlap bool
	// end ends the old one. What it may break is at most the requests in flight: one of each connection.
	end func(t *testing.T, old *harness.Balancer)
	// breaks: requests in flight are lost.
	breaks bool
}{
	{"stop and start", false, stop, false},
	{"kill and start", false, func(t *testing.T, old *harness.Balancer) { t.Helper(); old.Kill(t) }, true},
	{"upgrade", true, stop, false},
}

func stop(t *testing.T, old *harness.Balancer) {
	t.Helper()
	old.Terminate(t)
	if code := old.Wait(t, patience); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// The daemon is replaced under load. What is promised holds: whoever is stopped answers what is in flight and breaks nothing, and with a new one beside it no
// request at all is lost. The new one has from istiod what changed meanwhile, and istiod knows it as synced.
func TestRestartsKeepWhatIsPromised(t *testing.T) {
	harness.ForModes(t, func(whole *testing.T, mode harness.Mode) {
		w := newNamedWorld(whole, mode)
		values := w.values(whole)
		next := func() *harness.Balancer { return harness.Start(whole, mode, w.bootstrap("xlb"), w.place) }
		for _, way := range restarts {
			whole.Run(way.name, func(t *testing.T) {
				const kept = 4
				w.waitFor(t, "a", values)
				load := w.place.Program(t, programs.LoadProgram, programs.LoadSpec{
					Address: atXLB, Connections: kept, Asks: []programs.Ask{{Path: "/", Host: shop}}, Pause: time.Millisecond, Timeout: 5 * time.Second,
				})
				awaitServed(t, load, "a", 500)
				began := time.Now()
				old := w.xlb
				if way.overlap {
					w.xlb = next()
					w.waitFor(t, "b", exchanged(values))
					awaitServed(t, load, "b", 100)
				}
				way.end(t, old)
				if !way.overlap {
					w.change(t, exchanged(values))
					w.xlb = next()
				}
				w.await(t, atXLB, request{"GET", shop, "/", ""}, func(r programs.Reply) bool { return r.Status == http.StatusOK && r.Identity == "b" })
				awaitServed(t, load, "b", 500)
				w.requireOnly(t, load, "b")
				requireSynced(t, w)

				var r programs.LoadReport
				load.Finish(t, &r)
				t.Logf("%d requests in %v, %d connections ended, %d requests failed, of these %d since nobody listened", r.Total,
					time.Since(began).Round(time.Millisecond), r.Reconnects, r.Failed, r.Refused)
				lost := r.Failed - r.Refused
				switch {
				case way.breaks && lost > kept:
					t.Errorf("%d requests were lost, more than were in flight: %v", lost, r.Failures)
				case !way.breaks && (lost > 0 || r.Broken > 0):
					t.Errorf("%d requests were lost, %d responses broken: %v", lost, r.Broken, r.Failures)
				case way.overlap && r.Failed > 0:
					t.Errorf("%d requests failed: %v", r.Failed, r.Failures)
				}
				for status, n := range r.Status {
					if status != http.StatusOK {
						t.Errorf("%d responses have status %d", n, status)
					}
				}
				w.xlb.RequireFast(t, mode, 0.8)
			})
		}
		if refused := w.log.lines("ACK ERROR"); len(refused) > 0 {
			whole.Errorf("istiod was told:\n%s", strings.Join(refused, ""))
		}
	})
}

// newNamedWorld is a world whose servers answer with their names alone.
func newNamedWorld(t *testing.T, mode harness.Mode) *world {
	t.Helper()
	w := &world{place: harness.SameHost(t)}
	for name, at := range map[string]**origin{"a": &w.a, "b": &w.b, "c": &w.c} {
		o := w.place.OriginAt(t, name, netip.MustParseAddrPort("127.82.0.1:0"))
		*at = &origin{name: name, port: fmt.Sprint(o.Address.Port())}
	}
	w.join(t, mode)
	return w
}

// exchanged has a and b change places.
func exchanged(values map[string]string) map[string]string {
	other := maps.Clone(values)
	other["A"], other["B"] = values["B"], values["A"]
	return other
}

// change gives istiod other files, and waits until it has told a client of it: Envoy.
func (w *world) change(t *testing.T, values map[string]string) {
	t.Helper()
	w.configure(t, "shop.yaml", values)
	want := "a"
	if values["A"] == w.b.port {
		want = "b"
	}
	w.await(t, atEnvoy, request{"GET", shop, "/", ""}, func(r programs.Reply) bool { return r.Status == http.StatusOK && r.Identity == want })
}

// waitFor is change, and XLB follows as well.
func (w *world) waitFor(t *testing.T, identity string, values map[string]string) {
	t.Helper()
	w.change(t, values)
	w.await(t, atXLB, request{"GET", shop, "/", ""}, func(r programs.Reply) bool { return r.Status == http.StatusOK && r.Identity == identity })
}

// awaitServed waits for so many answers more of a server.
func awaitServed(t *testing.T, load *harness.Process, by string, more int) {
	t.Helper()
	one := &watched{load: load}
	before := one.served(t, by)
	harness.Eventually(t, patience, "requests served by "+by, func() bool { return one.served(t, by) >= before+more })
}

// requireOnly fails when any other server than that one answers.
func (w *world) requireOnly(t *testing.T, load *harness.Process, by string) {
	t.Helper()
	var before, after programs.LoadReport
	load.Ask(t, "report", &before)
	awaitServed(t, load, by, 200)
	load.Ask(t, "report", &after)
	for server, n := range after.Served[0] {
		if server != by && n != before.Served[0][server] {
			t.Errorf("%d requests went to %q, which no longer serves", n-before.Served[0][server], server)
		}
	}
}

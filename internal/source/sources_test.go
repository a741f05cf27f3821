// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
)

// ofView is a bootstrap with a listener and two clusters, of which the second has its endpoint at that port.
const ofView = `
static_resources:
  listeners:
  - name: web
    address: {socket_address: {address: 10.96.0.1, port_value: 80}}
    filter_chains:
    - filters:
      - name: http
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: web
          route_config:
            virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: b}}]}]
          http_filters: [{name: router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]
  clusters:
  - {name: a, load_assignment: {cluster_name: a, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 10.0.0.1, port_value: 80}}}}]}]}}
  - {name: b, load_assignment: {cluster_name: b, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 10.0.0.2, port_value: %d}}}}]}]}}
`

// viewsRig are the sources of the shared view, and of "blue" and "red".
type viewsRig struct {
	t *testing.T
	*Sources
	// active are the configurations that were put in force, refuse is what the next one is refused with.
	active []*model.Config
	refuse error
	// refuses says why one is refused; nil refuses nothing.
	refuses func(*model.Config) error
	// mu guards active where files are followed, or views wait.
	mu sync.Mutex
}

// portsNow is ports of what was put in force last, where files are followed.
func (r *viewsRig) portsNow() map[string]uint16 {
	return ports(r.last())
}

func newViewsRig(t *testing.T) *viewsRig {
	t.Helper()
	r := &viewsRig{t: t}
	shared, blue, red := r.load(model.View{}, 8000), r.load(model.View{Number: 1, Name: "blue"}, 8100), r.load(model.View{Number: 2, Name: "red"}, 8200)
	r.Sources = NewSources(Config{
		Logger: slog.New(slog.DiscardHandler), Cluster: func(model.View, string) *model.Cluster { return nil },
		Spawn: func(f func()) { go f() }, NewTicker: func(time.Duration, func() bool) (<-chan struct{}, func()) { return nil, func() {} },
		Activate: func(cfg *model.Config) error {
			if r.refuse != nil {
				return r.refuse
			}
			if r.refuses != nil && r.refuses(cfg) != nil {
				return r.refuses(cfg)
			}
			if !r.started {
				t.Error("what a source says from here on would be kept, and not put in force")
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.active = append(r.active, cfg)
			return nil
		},
	}, shared, blue, red)
	t.Cleanup(r.Close)
	if err := r.Activate(); err != nil {
		t.Fatal(err)
	}
	r.Begin(shared, blue, red)
	return r
}

func (r *viewsRig) load(v model.View, port int) *Bootstrap {
	r.t.Helper()
	b, err := Load(context.Background(), File{View: v, Path: v.Name + ".yaml", Text: fmt.Appendf(nil, ofView, port)})
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// reload has a view's file say another port.
func (r *viewsRig) reload(view string, port int) error {
	one := r.of(view)
	return one.replaceBootstrap(r.load(one.cfg.File.View, port))
}

// last is what was put in force last.
func (r *viewsRig) last() *model.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.active[len(r.active)-1]
}

// ports are those of the clusters b, by their views.
func ports(cfg *model.Config) map[string]uint16 {
	out := map[string]uint16{}
	for _, c := range cfg.Clusters {
		for _, view := range c.SeenIn() {
			if c.Name == "b" {
				out[view] = c.Endpoints[0].Address.Port()
			}
		}
	}
	return out
}

func TestAllViewsAreActivatedAtOnce(t *testing.T) {
	r := newViewsRig(t)
	if len(r.active) != 1 {
		t.Fatalf("%d configurations were put in force at the start, want 1", len(r.active))
	}
	cfg := r.last()
	for _, v := range []model.View{{}, {Number: 1, Name: "blue"}, {Number: 2, Name: "red"}} {
		for _, name := range []string{"a", "b"} {
			if c := cfg.In(v).Cluster(name); c == nil || !c.IsSeenIn(v.Name) {
				t.Errorf("%s of %q: got %+v", name, v.Name, c)
			}
		}
		if !slices.ContainsFunc(cfg.Listeners, func(l *model.Listener) bool { return l.View == v && l.Name == "web" }) {
			t.Errorf("%s is not there", v.Listener("web"))
		}
	}
	if len(cfg.Listeners) != 3 || len(cfg.Clusters) != 4 {
		t.Errorf("%d listeners and %d clusters, want 3 and 4: all have the same \"a\"", len(cfg.Listeners), len(cfg.Clusters))
	}
}

// What replaces a view's file is a change of that view's clusters and listeners alone, by their pointers: what it costs depends on nothing else.
func TestAViewsChangeIsOfThatViewAlone(t *testing.T) {
	for view, want := range map[string]map[string]uint16{
		"":     {"": 9000, "blue": 8100, "red": 8200},
		"blue": {"": 8000, "blue": 9000, "red": 8200},
		"red":  {"": 8000, "blue": 8100, "red": 9000},
	} {
		r := newViewsRig(t)
		before := r.last()
		if err := r.reload(view, 9000); err != nil {
			t.Fatal(err)
		}
		now := r.last()
		if got := ports(now); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("view %q: ports %v, want %v", view, got, want)
		}
		changed := model.ChangeOf(before.Clusters, now.Clusters)
		for _, c := range append(changed.Removed, changed.Added...) {
			if c.View.Name != view {
				t.Errorf("view %q: %s is another cluster now", view, c.Key())
			}
		}
		for i, l := range now.Listeners {
			if (l == before.Listeners[i]) == (l.View.Name == view) {
				t.Errorf("view %q: %s: the same as before: %t", view, l.FullName(), l == before.Listeners[i])
			}
		}
	}
}

// A view whose change is refused stays as it was, and is so also in what another view puts in force later.
func TestARefusedViewKeepsNoOtherFromBeingChanged(t *testing.T) {
	r := newViewsRig(t)
	r.refuse = errors.New("no room")
	if err := r.reload("blue", 9100); !errors.Is(err, r.refuse) {
		t.Errorf("got %v, want %v", err, r.refuse)
	}
	r.refuse = nil
	for _, view := range []string{"red", ""} {
		if err := r.reload(view, 9000); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]uint16{"": 9000, "blue": 8100, "red": 9000}
	if got := ports(r.last()); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("ports %v, want %v", got, want)
	}
	if err := r.Reactivate(); err != nil || fmt.Sprint(ports(r.last())) != fmt.Sprint(want) {
		t.Errorf("once more: %v, ports %v, want %v", err, ports(r.last()), want)
	}
}

// What Activate refuses of all views together ends the start.
func TestAStartFailsWithWhatRefusesTheViews(t *testing.T) {
	r := &viewsRig{t: t, refuse: errors.New("no room")}
	r.Sources = NewSources(Config{
		Logger: slog.New(slog.DiscardHandler), Cluster: func(model.View, string) *model.Cluster { return nil }, Activate: func(*model.Config) error { return r.refuse },
	}, r.load(model.View{}, 8000), r.load(model.View{Number: 1, Name: "blue"}, 8100))
	t.Cleanup(r.Close)
	if err := r.Activate(); !errors.Is(err, r.refuse) {
		t.Errorf("got %v, want %v", err, r.refuse)
	}
}

// Equal clusters of several views are one in what is put in force. One that a view has changed alone waits for the others, and is the view's own then.
func TestEqualClustersOfViewsAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newViewsRig(t)
		// Of "a" there is one, of "b" three.
		if n := len(r.last().Clusters); n != 4 {
			t.Fatalf("%d clusters, want 4", n)
		}
		var keys []model.ClusterKey
		for _, v := range []model.View{{}, {Name: "blue"}, {Name: "red"}} {
			if err := r.reload(v.Name, 9000); err != nil {
				t.Fatal(err)
			}
			keys = append(keys, r.last().In(v).Key("b"))
		}
		time.Sleep(sharedApart)
		synctest.Wait()
		if n := len(r.last().Clusters); n != 2 {
			t.Errorf("%d clusters when all views say the same, want 2", n)
		}
		if err := r.reload("red", 9100); err != nil {
			t.Fatal(err)
		}
		port := func(view string) uint16 {
			return r.last().In(model.View{Name: view}).Cluster("b").Endpoints[0].Address.Port()
		}
		if got := port("red"); got != 9000 {
			t.Errorf("a view that has changed alone has %d at once", got)
		}
		time.Sleep(sharedPatience)
		synctest.Wait()
		if got := []uint16{port(""), port("blue"), port("red")}; !slices.Equal(got, []uint16{9000, 9000, 9100}) {
			t.Errorf("ports %v", got)
		}
		if key := r.last().In(model.View{Name: "blue"}).Key("b"); key != r.last().In(model.View{}).Key("b") || !slices.Contains(keys, key) {
			t.Errorf("the others have another cluster than before: %s", key)
		}
	})
}

// What a view has waited for, and cannot be put in force, is tried again. Meanwhile the view has what it had.
func TestWhatAViewHasWaitedForIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newViewsRig(t)
		r.allSay(9000)
		if err := r.reload("blue", 9100); err != nil {
			t.Fatal(err)
		}
		r.Exclusive(func() { r.refuse = errors.New("no room") })
		time.Sleep(sharedPatience)
		synctest.Wait()
		blue := func() uint16 { return r.last().In(model.View{Name: "blue"}).Cluster("b").Endpoints[0].Address.Port() }
		if got := blue(); got != 9000 {
			t.Errorf("port %d in force while nothing can be put in force", got)
		}
		r.Exclusive(func() { r.refuse = nil })
		time.Sleep(mergePace)
		synctest.Wait()
		if got := blue(); got != 9100 {
			t.Errorf("port %d, want 9100", got)
		}
	})
}

// sharedRow is the row of clusters that views share; the zero value: there is no such row.
func (r *viewsRig) sharedRow() (row admin.Origin) {
	for _, o := range r.Origins() {
		if o.From == "clusters that views share" {
			row = o
		}
	}
	return row
}

// What cannot be put in force for hours is logged and counted once, and once more when it has been in force meanwhile. It is shown as long as it is so.
func TestWhatAViewWaitsForIsLoggedAndShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log := newViewsRig(t), &strings.Builder{}
		r.merging.log = slog.New(slog.NewTextHandler(log, nil))
		r.allSay(9000)
		for round := range 2 {
			r.Exclusive(func() { r.refuse = errors.New("no room") })
			r.Exclusive(func() { r.scheduleMerge(time.Now()) })
			time.Sleep(time.Hour)
			synctest.Wait()
			if n := strings.Count(log.String(), "no room"); n != round+1 {
				t.Errorf("logged %d times, want %d:\n%.2000s", n, round+1, log)
			}
			if o := r.sharedRow(); o.Refused != uint64(round+1) || o.Refusal == nil || o.Refusal.Problems[0].Reason != "no room" {
				t.Errorf("round %d: shown as %+v", round, o)
			}
			r.Exclusive(func() { r.refuse = nil })
			time.Sleep(2 * mergePace)
			synctest.Wait()
			if o := r.sharedRow(); o.Refused != uint64(round+1) || o.Refusal != nil {
				t.Errorf("round %d: shown as %+v once all is in force", round, o)
			}
		}
	})
}

// What a view has waited for, and cannot be put in force, keeps no other view from being changed.
func TestWhatAViewHasWaitedForKeepsNoOtherFromBeingChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newViewsRig(t)
		r.allSay(9000)
		portOf := func(cfg *model.Config, view string) uint16 {
			return cfg.In(model.View{Name: view}).Cluster("b").Endpoints[0].Address.Port()
		}
		r.Exclusive(func() {
			r.refuses = func(cfg *model.Config) error {
				if portOf(cfg, "blue") == 9100 {
					return errors.New("no room")
				}
				return nil
			}
		})
		if err := r.reload("blue", 9100); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * sharedPatience)
		if err := r.reload("red", 9200); err != nil {
			t.Errorf("another view is refused: %v", err)
		}
		time.Sleep(2 * sharedPatience)
		synctest.Wait()
		if got := []uint16{portOf(r.last(), ""), portOf(r.last(), "blue")}; !slices.Equal(got, []uint16{9000, 9000}) {
			t.Errorf("ports %v, want 9000 of both", got)
		}
		r.Exclusive(func() { r.refuses = nil })
		time.Sleep(2 * mergePace)
		synctest.Wait()
		if got := []uint16{portOf(r.last(), ""), portOf(r.last(), "blue"), portOf(r.last(), "red")}; !slices.Equal(got, []uint16{9000, 9100, 9200}) {
			t.Errorf("ports %v in the end", got)
		}
	})
}

// A table that a shared cluster fills is a matter of the view that has it, under its own name; what others fill it with is not.
func TestAFullTableIsReportedToTheViewThatFillsIt(t *testing.T) {
	cfg := &model.Config{Names: map[string]*model.Names{"red": {Keys: map[string]model.ClusterKey{"b": {View: "blue", Name: "b"}}}}}
	full := &fullOf{&reconcile.FullError{Cluster: model.ClusterKey{View: "blue", Name: "b"}}, cfg}
	for view, want := range map[string]bool{"red": true, "blue": true, "": false} {
		err := errorIn(model.View{Name: view}, full)
		own, is := errors.AsType[*reconcile.FullError](err)
		if is != want || is && own.Cluster != (model.ClusterKey{View: view, Name: "b"}) {
			t.Errorf("view %q: %v", view, err)
		}
	}
}

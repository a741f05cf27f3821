// SPDX-License-Identifier: Apache-2.0

package viewctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/shutdown"
	"github.com/xlb-project/xlb/internal/source"
	"github.com/xlb-project/xlb/internal/views"
	"github.com/xlb-project/xlb/internal/workload"
)

// rig is a Controller whose file, bootstraps and connections the test has. It notes what the Controller does.
type rig struct {
	t *testing.T
	*Controller
	path string
	log  bytes.Buffer
	// mu guards calls and loaded: views of templates are added by other goroutines.
	mu    sync.Mutex
	calls []string
	// loaded are the views of bootstraps.
	loaded map[*source.Bootstrap]views.View
	// fails has errors by what was to be done: "load NAME", "add", "remove".
	fails map[string]error
	// silent views keep an attempt to add them waiting until that ends.
	silent map[string]bool
	inUse  map[uint32]bool
	// facts are those of the workloads that are served, seen the views that they see.
	facts []workload.Facts
	seen  map[uint32]bool
	// onLook is called before Seen returns, onAdd when views have been added, onRemove before Remove returns.
	onLook, onAdd, onRemove func()
}

// two are the views blue and red.
const two = `views:
- {name: blue, config: blue.yaml, select: [{netns: blue}]}
- {name: red, config: red.yaml, select: [{netns: red}]}
`

func newRig(t *testing.T, text string) *rig {
	t.Helper()
	r := &rig{t: t, path: filepath.Join(t.TempDir(), "views.yaml"), loaded: map[*source.Bootstrap]views.View{}, fails: map[string]error{}, onLook: func() {}, onAdd: func() {}, onRemove: func() {}}
	r.write(text)
	first, err := views.Read(r.path)
	if err != nil {
		t.Fatal(err)
	}
	r.Controller = New(Config{
		Logger: slog.New(slog.NewTextHandler(&r.log, nil)), Served: views.Served{Others: true}, Load: r.load, Sources: r,
		Await: func(context.Context) { r.note("await") }, ChooseViews: func() { r.note("choose") }, InUse: func() map[uint32]bool { return r.inUse },
		Facts: func() []workload.Facts { return r.facts }, Seen: func() map[uint32]bool { r.onLook(); return r.seen },
		NewTicker: func(time.Duration, func() bool) (<-chan struct{}, func()) { return nil, func() {} },
	}, first)
	r.mustHaveCalled("took")
	return r
}

func (r *rig) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
}

// mustHaveCalled demands what was done since the last call.
func (r *rig) mustHaveCalled(want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.calls); diff != "" {
		r.t.Errorf("done (-want +got):\n%s\n%s", diff, r.log.String())
	}
	r.calls = nil
}

func (r *rig) write(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// reload has the file say this, and the Controller read it.
func (r *rig) reload(text string) {
	r.t.Helper()
	r.write(text)
	r.reread(r.t.Context(), true)
}

// addMade adds what is due, and waits for what comes of that.
func (r *rig) addMade(ctx context.Context, now time.Time) {
	r.Controller.addMade(ctx, now)
	for len(r.adds) > 0 {
		r.noteAdded(ctx, <-r.outcomes)
	}
}

func (r *rig) load(_ context.Context, v views.View) (*source.Bootstrap, error) {
	if err := r.fails["load "+v.Name]; err != nil {
		return nil, err
	}
	b := &source.Bootstrap{}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loaded[b] = v
	return b, nil
}

func (r *rig) Add(ctx context.Context, added []*source.Bootstrap) error {
	return r.AddWhile(ctx, ctx, added)
}

func (r *rig) AddWhile(_, attempt context.Context, added []*source.Bootstrap) error {
	for _, b := range added {
		v := r.viewOf(b)
		r.note("add %d %s of %s", v.Number, v.Name, filepath.Base(v.Config))
	}
	r.onAdd()
	if slices.ContainsFunc(added, func(b *source.Bootstrap) bool { return r.silent[r.viewOf(b).Name] }) {
		<-attempt.Done()
		return shutdown.ErrEnding
	}
	for _, b := range added {
		if err := r.fails["add "+r.viewOf(b).Name]; err != nil {
			return err
		}
	}
	return r.fails["add"]
}

func (r *rig) viewOf(b *source.Bootstrap) views.View {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loaded[b]
}

func (r *rig) Remove(names []string) error {
	r.note("remove %s", strings.Join(slices.Sorted(slices.Values(names)), " "))
	r.onRemove()
	return r.fails["remove"]
}

func (r *rig) TookViews(path, version string) {
	r.note("took")
	if path != r.path || len(version) != 16 {
		r.t.Errorf("version %q of %s is shown", version, path)
	}
}

func (r *rig) RefusedViews(path string, why error) {
	r.note("refused: %v", why)
	if path != r.path {
		r.t.Errorf("of %s", path)
	}
}

// mustSee demands the view of a workload in the network namespace with that name.
func (r *rig) mustSee(netns, view string) {
	r.t.Helper()
	if got := r.NameOf(r.Of(workload.Facts{Netns: "/run/netns/" + netns})); got != view {
		r.t.Errorf("namespace %s sees view %q, want %q", netns, got, view)
	}
}

func view(name string) string {
	return fmt.Sprintf("- {name: %s, config: %s.yaml, select: [{netns: %s}]}\n", name, name, name)
}

func TestViewsComeBeforeWorkloadsSeeThem(t *testing.T) {
	r := newRig(t, two)
	r.mustSee("blue", "blue")
	r.mustSee("green", "")
	// Also as the first one: a name keeps its number.
	r.reload("views:\n" + view("green") + two[len("views:\n"):])
	r.mustHaveCalled("add 3 green of green.yaml", "await", "took", "choose")
	r.mustSee("green", "green")
	r.mustSee("red", "red")
	if diff := cmp.Diff([]string{"green", "blue", "red"}, r.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestViewsGoWhenTheyAreUnused(t *testing.T) {
	r := newRig(t, two)
	r.reload("views:\n" + view("blue"))
	r.mustHaveCalled("took", "choose")
	r.mustSee("red", "")
	began := time.Now()
	r.inUse = map[uint32]bool{2: true}
	r.removeDeparted(began)
	r.removeDeparted(began.Add(time.Minute))
	r.mustHaveCalled()
	r.inUse = nil
	r.fails["remove"] = errors.New("no room")
	r.removeDeparted(began.Add(2 * time.Minute))
	r.mustHaveCalled("remove red")
	// It retries, and not at once.
	r.removeDeparted(began.Add(2*time.Minute + retryPace/2))
	r.mustHaveCalled()
	delete(r.fails, "remove")
	r.removeDeparted(began.Add(2*time.Minute + retryPace))
	r.mustHaveCalled("remove red")
	r.removeDeparted(began.Add(time.Hour))
	r.mustHaveCalled()
	if got := r.NameOf(2); got != "red" {
		t.Errorf("a view that has gone is called %q", got)
	}
	// It comes back with its number; another one never gets that.
	r.reload("views:\n" + view("green") + view("red"))
	r.mustHaveCalled("add 3 green of green.yaml", "add 2 red of red.yaml", "await", "took", "choose")
}

// A connection may be on its way that was led to the view, and one may stay open for good.
func TestViewsWaitForTheirConnections(t *testing.T) {
	r := newRig(t, two)
	r.reload("views: []")
	r.mustHaveCalled("took", "choose")
	began := time.Now()
	r.removeDeparted(began.Add(arrival / 2))
	r.mustHaveCalled()
	r.inUse = map[uint32]bool{1: true}
	r.removeDeparted(began.Add(2 * arrival))
	r.mustHaveCalled("remove red")
	r.removeDeparted(began.Add(2 * departure))
	r.mustHaveCalled("remove blue")
}

func TestAViewThatComesBackInTimeStays(t *testing.T) {
	r := newRig(t, two)
	r.reload("views:\n" + view("blue"))
	r.reload(two)
	r.mustHaveCalled("took", "choose", "took", "choose")
	r.removeDeparted(time.Now().Add(time.Hour))
	r.mustHaveCalled()
	r.mustSee("red", "red")
}

func TestAViewWithAnotherFileIsReplaced(t *testing.T) {
	r := newRig(t, two)
	r.reload(strings.Replace(two, "red.yaml", "other.yaml", 1))
	r.mustHaveCalled("add 2 red of other.yaml", "await", "took", "choose")
	r.removeDeparted(time.Now().Add(time.Hour))
	r.mustHaveCalled()
}

// A file is in force as a whole or not at all.
func TestARefusedFileChangesNothing(t *testing.T) {
	green := two + view("green")
	tests := []struct {
		name, text string
		fails      map[string]error
		want       []string
	}{
		{"no view", "views: 7", nil, []string{"refused: views.yaml: views: want a list"}},
		{"what is not served", two + "- {name: host, config: host.yaml, select: [{host: true}]}\n", nil, []string{"refused: view host selects the host's own network namespace"}},
		{"pods without a runtime", two + "- {name: web, config: web.yaml, select: [{namespace: shop}]}\n", nil, []string{"refused: view web selects pods"}},
		{"a bootstrap", green, map[string]error{"load green": errors.New("no such file")}, []string{"refused: view green: no such file"}},
		{"the configuration", green, map[string]error{"add": errors.New("no room")}, []string{"add 3 green of green.yaml", "refused: no room"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, two)
			r.fails = tt.fails
			r.reload(tt.text)
			if !slices.EqualFunc(r.calls, tt.want, func(got, want string) bool {
				return strings.Contains(strings.ReplaceAll(got, filepath.Dir(r.path)+"/", ""), want)
			}) {
				t.Errorf("done %q, want %q", r.calls, tt.want)
			}
			r.calls = nil
			r.mustSee("red", "red")
			r.mustSee("green", "")
			r.removeDeparted(time.Now().Add(time.Hour))
			r.mustHaveCalled()
			// What was in force before is, once it is in the file again.
			r.fails = nil
			r.reload(two)
			r.mustHaveCalled("took", "choose")
		})
	}
}

// The file of a view may come after that of the views. A refusal for one reason is reported once.
func TestARefusedFileIsTriedAgain(t *testing.T) {
	r := newRig(t, two)
	r.fails["load green"] = errors.New("no such file")
	r.reload(two + view("green"))
	r.mustHaveCalled("refused: view green: no such file")
	r.reread(t.Context(), false)
	r.mustHaveCalled()
	r.again = time.Now()
	r.reread(t.Context(), false)
	r.mustHaveCalled()
	delete(r.fails, "load green")
	r.again = time.Now()
	r.reread(t.Context(), false)
	r.mustHaveCalled("add 3 green of green.yaml", "await", "took", "choose")
	r.mustSee("green", "green")
	r.again = time.Now()
	r.reread(t.Context(), false)
	r.mustHaveCalled()
}

// A file that has changed between the start's reading and this is noticed, and one that is as it was is not put in force again.
func TestAFileIsAppliedOnce(t *testing.T) {
	r := newRig(t, two)
	r.reread(t.Context(), false)
	r.mustHaveCalled()
	r = newRig(t, two)
	r.write(two + view("green"))
	r.reread(t.Context(), false)
	r.mustHaveCalled("add 3 green of green.yaml", "await", "took", "choose")
}

func TestASignalHasTheFileRead(t *testing.T) {
	r := newRig(t, two)
	ctx, end := context.WithCancel(t.Context())
	reload, served := make(chan os.Signal), make(chan struct{})
	go func() { defer close(served); r.Serve(ctx, reload) }()
	r.write(two + view("green"))
	for range 2 {
		reload <- os.Interrupt // the second finds the first done
	}
	end()
	<-served
	r.mustSee("green", "green")
}

// Where the daemon ends nothing was refused.
func TestTheEndRefusesNothing(t *testing.T) {
	r := newRig(t, two)
	ctx, end := context.WithCancel(t.Context())
	end()
	r.write("views: 7")
	r.reread(ctx, true)
	r.mustHaveCalled()
}

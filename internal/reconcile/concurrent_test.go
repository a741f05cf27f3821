// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/datapath"
	"github.com/xlb-project/xlb/internal/datapath/datapathtest"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/reconcile/clusters"
)

// asked is a question for the kernel: a head that comes to a listener.
type asked struct {
	listener uint32
	head     []byte
}

// loaded is the kernel's fast path, attached to nothing, under a reconciler.
type loaded struct {
	t *testing.T
	d *datapath.Datapath
	r *Reconciler
}

func load(t *testing.T) *loaded {
	d := datapathtest.Load(t)
	r := newReconciler(d.Config, d.Shared, slog.New(slog.DiscardHandler), limits{fewPaths, clusters.LongSchedule})
	return &loaded{t: t, d: d, r: r}
}

func (l *loaded) mustApply(cfg *model.Config) {
	l.t.Helper()
	im, _ := compile.Compile(cfg)
	if _, err := l.r.Apply(im); err != nil {
		l.t.Fatal(err)
	}
}

// questions asks for each request at each listener.
func (l *loaded) questions(cfg *model.Config, requests []*matcher.Request) (list []asked) {
	for _, lis := range cfg.Listeners {
		number, _, err := l.d.Config.VIPs.Lookup(maps.KeyOf(lis.Address))
		if err != nil {
			l.t.Fatal(err)
		}
		for _, r := range requests {
			var w strings.Builder
			fmt.Fprintf(&w, "GET %s HTTP/1.1\r\nHost: %s\r\n", r.Path, r.Authority)
			for _, name := range []string{"x", "y"} {
				for _, v := range r.Values(name) {
					fmt.Fprintf(&w, "%s: %s\r\n", name, v)
				}
			}
			list = append(list, asked{number, []byte(w.String() + "\r\n")})
		}
	}
	return list
}

// ask returns a decision. The draw is always the same.
func (l *loaded) ask(q asked) routing {
	e, err := l.d.Explain(q.listener, 7, q.head)
	if err != nil {
		l.t.Error(err)
	}
	return routing{cluster: e.Cluster, verdict: maps.Verdict(e.Verdict), flags: maps.RouteFlags(e.Flags)}
}

func (l *loaded) askAll(list []asked) (answers []routing) {
	for _, q := range list {
		answers = append(answers, l.ask(q))
	}
	return answers
}

func TestKernelDecidesByTheOldRoutesOrTheNewWhileTheyChange(t *testing.T) {
	l := load(t)
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) { l.askWhileItChanges(t, &k, randomWorld(t)) })
	}
}

func (l *loaded) askWhileItChanges(t *testing.T, k *kind, w world) {
	changed, during, seen := 0, 0, forms{}
	for range 15 {
		last := k.begin(w)
		l.mustApply(last)
		for range 12 {
			next := k.change(w, last)
			questions := l.questions(last, w.requests(16))
			before := l.askAll(questions)
			stop, stopped := make(chan struct{}), make(chan []routing)
			go func() { stopped <- l.askUntil(stop, questions) }()
			old := l.r.forms()
			l.mustApply(next)
			seen.note(old, l.r.forms())
			close(stop)
			answers, after := <-stopped, l.askAll(questions)
			during += len(answers)
			for n, got := range answers {
				i := n % len(questions)
				if before[i] != after[i] {
					changed++
				}
				if got != before[i] && got != after[i] {
					t.Fatalf("%q: %+v while the routes changed, before %+v, afterwards %+v", questions[i].head, got, before[i], after[i])
				}
			}
			last = next
		}
		l.mustApply(&model.Config{})
	}
	t.Logf("%d decisions during changes, %d of requests that change; changes of virtual hosts: %v", during, changed, seen)
	seen.check(t, k)
	if changed < 100 {
		t.Errorf("%d decisions were of requests that change, want at least 100", changed)
	}
}

// askUntil asks again and again, in order.
func (l *loaded) askUntil(stop <-chan struct{}, questions []asked) (answers []routing) {
	for {
		for _, q := range questions {
			select {
			case <-stop:
				return answers
			default:
				answers = append(answers, l.ask(q))
			}
		}
	}
}

// Connections to listeners that have gone are never led by those that get their entries, also while these get them.
func TestKernelNeverLeadsAConnectionByTheNextListenerOfItsEntry(t *testing.T) {
	l := load(t)
	if l.d.Config.Sizes.Listeners != uint32(maps.MaxListeners) {
		t.Fatalf("the map has room for %d listeners, the programs look for %d", l.d.Config.Sizes.Listeners, maps.MaxListeners)
	}
	// Two entries are left.
	for range maps.MaxListeners - 3 {
		if _, ok := l.r.indices.listeners.Take(); !ok {
			t.Fatal("there are no numbers")
		}
	}
	head := []byte("GET / HTTP/1.1\r\nHost: any\r\n\r\n")
	numberOf := func(cfg *model.Config) uint32 {
		number, _, err := l.d.Config.VIPs.Lookup(maps.KeyOf(cfg.Listeners[0].Address))
		if err != nil {
			t.Fatal(err)
		}
		return number
	}
	var gone atomic.Pointer[[]asked]
	gone.Store(&[]asked{})
	stop, stopped := make(chan struct{}), make(chan int)
	go func() {
		looks := 0
		defer func() { stopped <- looks }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, q := range *gone.Load() {
				looks++
				if got := l.ask(q); got.verdict != maps.HandoverListenerGone {
					t.Errorf("a connection to listener %d, which has gone, is led: %+v", q.listener, got)
					return
				}
			}
		}
	}()
	const lives = 200
	entries := map[uint32]int{}
	for life := range lives {
		cfg := listening(1 + life)
		l.mustApply(cfg)
		number := numberOf(cfg)
		entries[l.d.Config.Sizes.ListenerIndex(number)]++
		if got := l.ask(asked{number, head}); got.verdict != maps.VerdictOk {
			t.Fatalf("a connection to listener %d in force: %+v", number, got)
		}
		l.mustApply(listening())
		// Those of the last lives: they had the entries that are given next.
		list := append([]asked{}, *gone.Load()...)
		list = append(list, asked{number, head})
		list = list[max(0, len(list)-8):]
		gone.Store(&list)
	}
	close(stop)
	looks := <-stopped
	t.Logf("%d look-ups, entries %v", looks, entries)
	if len(entries) != 2 || looks < lives {
		t.Errorf("listeners had the entries %v, and %d look-ups were of ones that have gone", entries, looks)
	}
}

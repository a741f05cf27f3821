// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"log/slog"
	"strings"
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

// SPDX-License-Identifier: Apache-2.0

package viewctl

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/xlb-project/xlb/internal/shutdown"
	"github.com/xlb-project/xlb/internal/source"
	"github.com/xlb-project/xlb/internal/views"
)

const (
	// mostAdds bounds what is being added at the same time: each waits for its own control plane.
	mostAdds = 8
	// mostParts bounds how often one that is refused is parted to find which view of it is to blame, before the rest waits for the next attempt.
	mostParts = 32
	// startPatience is how long the start waits for views of templates: as long as one attempt to add them waits for their servers, and for DNS, at most (package
	// source). What is late comes when it is ready.
	startPatience = 20 * time.Second
)

// outcome is what has come of a part of an attempt, which is adding: nil where the views are there. Without views it is the attempt's end.
type outcome struct {
	of   *adding
	list []views.View
	err  error
}

// Begin adds the views that templates make for the workloads which there are at the start. It waits for what they read, as Sources.Add does, for startPatience at
// most.
func (o *Controller) Begin(ctx context.Context) {
	o.addMade(ctx, time.Now())
	late := time.NewTimer(startPatience)
	defer late.Stop()
	for len(o.adds) > 0 {
		select {
		case one := <-o.outcomes:
			o.noteAdded(ctx, one)
		case <-late.C:
			o.cfg.Logger.Warn("going on without some views of templates, which come once they are ready", "attempts", len(o.adds))
			return
		}
	}
}

// addMade begins to add the views of templates that are due: what they read may take long, and keeps neither others nor the file waiting.
func (o *Controller) addMade(ctx context.Context, now time.Time) {
	if len(o.adds) == mostAdds {
		return
	}
	due, isFull := o.made.due(now, o.file.Load())
	if isFull && !o.isFull {
		o.cfg.Logger.Error("there is no room for a further view of a template; connections of its workloads are not balanced", "most", maxMade,
			"remedy", "let for_each name what fewer values are known of")
	}
	o.isFull = isFull
	if len(due) == 0 {
		return
	}
	attempt, end := context.WithCancel(ctx)
	a := &adding{Controller: o, due: due, end: end, left: mostParts}
	o.adds[a] = true
	go func() {
		a.addAll(ctx, attempt)
		o.outcomes <- outcome{of: a}
	}()
}

// endOthers ends the attempts to add what a file that is in force now does not make: a view would have the configuration of the file before. What else they were to
// add is due again.
func (o *Controller) endOthers(f *views.File) {
	for a := range o.adds {
		if slices.ContainsFunc(a.due, func(v views.View) bool { return !f.Makes(&v) }) {
			a.end()
		}
	}
}

// adding is one attempt to add some views, until end is called. left is how often Sources.AddWhile may be called still.
type adding struct {
	*Controller
	due  []views.View
	end  context.CancelFunc
	left int
}

// part are views with their bootstraps.
type part struct {
	list   []views.View
	loaded []*source.Bootstrap
}

// addAll adds views together, but for those whose bootstrap cannot be used.
func (a *adding) addAll(ctx, attempt context.Context) {
	var all part
	for _, v := range a.due {
		b, err := a.cfg.Load(attempt, v)
		if err != nil {
			a.outcomes <- outcome{a, []views.View{v}, fmt.Errorf("view %s: %w", v.Name, err)}
			continue
		}
		all.list, all.loaded = append(all.list, v), append(all.loaded, b)
	}
	if len(all.list) > 0 {
		a.addParts(ctx, attempt, all)
	}
}

// addParts adds views together. Where they are refused it adds each half of them, to leave out those that are to blame: larger parts come before smaller ones, since
// each may wait for a silent server.
func (a *adding) addParts(ctx, attempt context.Context, all part) {
	for parts := []part{all}; len(parts) > 0; parts = parts[1:] {
		p := parts[0]
		a.left--
		err := a.cfg.Sources.AddWhile(ctx, attempt, p.loaded)
		if half := len(p.list) / 2; err != nil && half > 0 && a.left >= len(parts)+1 && attempt.Err() == nil {
			parts = append(parts, part{p.list[:half], p.loaded[:half]}, part{p.list[half:], p.loaded[half:]})
			continue
		}
		a.outcomes <- outcome{a, p.list, err}
	}
}

// noteAdded takes in what has come of a part of an attempt.
func (o *Controller) noteAdded(ctx context.Context, one outcome) {
	switch {
	case len(one.list) == 0:
		one.of.end()
		delete(o.adds, one.of)
	case one.err == nil:
		o.made.added(one.list)
		o.cfg.Logger.Info("views of templates are there", "views", len(one.list), "first", one.list[0].Name)
	case !shutdown.IsRefusal(one.err):
		o.made.abandoned(one.list)
	default:
		news := o.made.failed(one.list, one.err, time.Now())
		if len(news) > 0 && ctx.Err() == nil {
			o.cfg.Logger.Error("views are refused; connections of their workloads are not balanced; will retry", "views", len(news), "first", news[0], "err", one.err)
		}
	}
	if ctx.Err() == nil {
		o.show()
	}
}

// SPDX-License-Identifier: Apache-2.0

package viewctl

import (
	"context"
	"fmt"
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
)

// outcome is what has come of adding views: nil where they are there.
type outcome struct {
	list []views.View
	err  error
}

// Begin adds the views that templates make for the workloads which there are at the start. It waits for what they read, as Sources.Add does.
func (o *Controller) Begin(ctx context.Context) {
	o.addMade(ctx, time.Now())
	for o.adds > 0 {
		o.noteAdded(ctx, <-o.outcomes)
	}
}

// addMade begins to add the views of templates that are due: what they read may take long, and keeps neither others nor the file waiting.
func (o *Controller) addMade(ctx context.Context, now time.Time) {
	if o.adds == mostAdds {
		return
	}
	due, isFull := o.made.due(now)
	if isFull && !o.isFull {
		o.cfg.Logger.Error("there is no room for a further view of a template; connections of its workloads are not balanced", "most", maxMade,
			"remedy", "let for_each name what fewer values are known of")
	}
	o.isFull = isFull
	if len(due) == 0 {
		return
	}
	o.adds++
	go func() {
		a := adding{Controller: o, left: mostParts}
		a.addAll(ctx, due)
		o.outcomes <- a.of
	}()
}

// adding is one attempt to add some views. left is how often Sources.Add may be called still.
type adding struct {
	*Controller
	of   []outcome
	left int
}

// addAll adds views together, but for those whose bootstrap cannot be used.
func (a *adding) addAll(ctx context.Context, due []views.View) {
	var list []views.View
	var loaded []*source.Bootstrap
	for _, v := range due {
		b, err := a.cfg.Load(ctx, v)
		if err != nil {
			a.of = append(a.of, outcome{[]views.View{v}, fmt.Errorf("view %s: %w", v.Name, err)})
			continue
		}
		list, loaded = append(list, v), append(loaded, b)
	}
	if len(list) > 0 {
		a.addParts(ctx, list, loaded)
	}
}

// addParts adds views together. Where they are refused it adds each half of them, to leave out those that are to blame.
func (a *adding) addParts(ctx context.Context, list []views.View, loaded []*source.Bootstrap) {
	a.left--
	err := a.cfg.Sources.Add(ctx, loaded)
	if err == nil || len(list) == 1 || a.left < 2 || ctx.Err() != nil {
		a.of = append(a.of, outcome{list, err})
		return
	}
	half := len(list) / 2
	a.addParts(ctx, list[:half], loaded[:half])
	a.addParts(ctx, list[half:], loaded[half:])
}

// noteAdded takes in what has come of one attempt.
func (o *Controller) noteAdded(ctx context.Context, all []outcome) {
	o.adds--
	now := time.Now()
	for _, one := range all {
		if one.err == nil {
			o.made.added(one.list)
			o.cfg.Logger.Info("views of templates are there", "views", len(one.list), "first", one.list[0].Name)
			continue
		}
		if news := o.made.failed(one.list, one.err, now); len(news) > 0 && ctx.Err() == nil && shutdown.IsRefusal(one.err) {
			o.cfg.Logger.Error("views are refused; connections of their workloads are not balanced; will retry", "views", len(news), "first", news[0], "err", one.err)
		}
	}
	if ctx.Err() == nil {
		o.show()
	}
}

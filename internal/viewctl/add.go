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

// Begin adds the views that templates make for the workloads which there are at the start. It waits for what they read, as Serve does.
func (o *Controller) Begin(ctx context.Context) { o.addMade(ctx, time.Now()) }

// addMade adds the views of templates that are due. Where one is refused the others are added all the same.
func (o *Controller) addMade(ctx context.Context, now time.Time) {
	due, isFull := o.made.due(now)
	if isFull && !o.isFull {
		o.cfg.Logger.Error("there is no room for a further view of a template; connections of its workloads are not balanced", "most", maxMade,
			"remedy", "let for_each name what fewer values are known of")
	}
	o.isFull = isFull
	if len(due) == 0 {
		return
	}
	list, loaded := o.loadMade(ctx, due)
	err := o.addTogether(ctx, list, loaded)
	if err == nil || len(list) == 1 {
		o.noteAdded(ctx, list, err)
		return
	}
	for i := range list {
		o.noteAdded(ctx, list[i:i+1], o.addTogether(ctx, list[i:i+1], loaded[i:i+1]))
	}
}

// loadMade reads the bootstraps of views, and leaves out those whose cannot be used.
func (o *Controller) loadMade(ctx context.Context, due []views.View) (list []views.View, loaded []*source.Bootstrap) {
	for _, v := range due {
		b, err := o.cfg.Load(ctx, v)
		if err != nil {
			o.noteAdded(ctx, []views.View{v}, fmt.Errorf("view %s: %w", v.Name, err))
			continue
		}
		list, loaded = append(list, v), append(loaded, b)
	}
	return list, loaded
}

// noteAdded takes in what has come of adding views together. An error is that of one.
func (o *Controller) noteAdded(ctx context.Context, list []views.View, err error) {
	f := o.file.Load()
	switch {
	case ctx.Err() != nil || len(list) == 0:
	case err == nil && o.why == "" && o.made.allAreThere():
		o.cfg.Sources.TookViews(f.Path, f.Version)
	case err != nil && o.made.failed(list[0], err, time.Now()) && shutdown.IsRefusal(err):
		o.cfg.Logger.Error("a view is refused; connections of its workloads are not balanced; will retry", "view", list[0].Name, "err", err)
		o.cfg.Sources.RefusedViews(f.Path, err)
	}
}

func (o *Controller) addTogether(ctx context.Context, list []views.View, loaded []*source.Bootstrap) error {
	if len(list) == 0 {
		return nil
	}
	if err := o.cfg.Sources.Add(ctx, loaded); err != nil {
		return err
	}
	o.made.added(list)
	o.cfg.Logger.Info("views of templates are there", "views", len(list), "first", list[0].Name)
	return nil
}

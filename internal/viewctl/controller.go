// SPDX-License-Identifier: Apache-2.0

package viewctl

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/files"
	"github.com/xlb-project/xlb/internal/shutdown"
	"github.com/xlb-project/xlb/internal/source"
	"github.com/xlb-project/xlb/internal/views"
	"github.com/xlb-project/xlb/internal/workload"
)

// Sources are the configurations of views (source.Sources).
type Sources interface {
	Add(ctx context.Context, added []*source.Bootstrap) error
	AddWhile(ctx, attempt context.Context, added []*source.Bootstrap) error
	Remove(names []string) error
	TookViews(path, version string)
	RefusedViews(path string, why error)
}

// Config is what a Controller works with. All of it is needed.
type Config struct {
	Logger *slog.Logger
	// Served is what of the host is served.
	Served views.Served
	// Load reads the bootstrap of a view. The error is shutdown.ErrEnding once ctx has ended.
	Load    func(ctx context.Context, v views.View) (*source.Bootstrap, error)
	Sources Sources
	// Await returns when the endpoints of what has been added have been asked for their health, their time is up, or ctx ends.
	Await func(ctx context.Context)
	// ChooseViews has all workloads see the views that Of chooses.
	ChooseViews func()
	// Facts are those of all workloads that are served.
	Facts func() []workload.Facts
	// Seen are the views, by their numbers, that workloads see: all those that Of had chosen before the call. InUse are the views that have open connections.
	Seen, InUse func() map[uint32]bool
	// NewTicker sends at that pace while due reports true.
	NewTicker func(pace time.Duration, due func() bool) (call <-chan struct{}, stop func())
}

const (
	// pace is how often the file is looked at, and whether views that go are in use.
	pace = 250 * time.Millisecond
	// departure is how long a view that has been removed serves the connections that it leaves behind, as listeners do.
	departure = 10 * time.Minute
	// arrival is how long a connection may be on its way to the daemon that was led to a view, and departPace how often views that depart are looked at.
	arrival    = 2 * time.Second
	departPace = time.Second
	// retryPace is how often it retries what could not be put in force.
	retryPace = 2 * time.Second
)

// Controller knows which views there are. It is safe for concurrent use, but for what says otherwise.
type Controller struct {
	cfg Config
	// file is in force.
	file atomic.Pointer[views.File]
	made *made

	// What follows is Serve's, and Begin's before that.
	watch files.Watch
	// isFull: there is no room for a view of a template, which has been logged.
	isFull bool
	// adds are the attempts under way to add views of templates, outcomes what comes of each part of them.
	adds     map[*adding]bool
	outcomes chan outcome
	// row is what is shown to be wrong with views; empty: nothing is wrong.
	row string
	// there are the views of the file that have a configuration in force, by name. Those that the file does not have any more depart, since then.
	there   map[string]views.View
	departs map[string]time.Time
	// refused is a file that could not be put in force, for a reason that may pass: the Controller retries then. why is what was logged last.
	refused *views.File
	again   time.Time
	why     error
	// departAt is when views that depart are looked at next.
	departAt time.Time
}

// New returns a Controller that begins with a file, whose views are put in force by the caller.
func New(c Config, first *views.File) *Controller {
	o := &Controller{cfg: c, made: newMade(), adds: map[*adding]bool{}, outcomes: make(chan outcome), there: map[string]views.View{}, departs: map[string]time.Time{}}
	o.made.assign(first)
	o.take(first)
	for _, v := range first.Views {
		if !v.IsTemplate() {
			o.there[v.Name] = v
		}
	}
	return o
}

// take has the file be the one by which views are chosen.
func (o *Controller) take(f *views.File) {
	o.file.Store(f)
	o.row = ""
	o.cfg.Sources.TookViews(f.Path, f.Version)
}

// Of is the number of the view that a workload with these facts sees. One that a template makes for it may have to come: until then connections of the workload
// are not balanced. It does not wait.
func (o *Controller) Of(facts workload.Facts) uint32 {
	v := o.file.Load().Of(facts)
	if v.Name == "" || v.Number != 0 {
		return v.Number
	}
	return o.made.number(v)
}

// Await returns when the view with a number is there, or its patience has ended: a control plane may not answer. It waits for each view once, and for one that a
// template makes alone.
func (o *Controller) Await(number uint32) {
	there := o.made.awaitable(number)
	if there == nil {
		return
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-there:
	case <-late.C:
	}
}

// Basis is what the views that workloads see depend on.
func (o *Controller) Basis() workload.Basis { return o.file.Load().Basis() }

// Names are those of the views of the file, and of those that its templates have made.
func (o *Controller) Names() (list []string) {
	for _, v := range o.file.Load().Views {
		if !v.IsTemplate() {
			list = append(list, v.Name)
		}
	}
	return append(list, o.made.list()...)
}

// NameOf is the name of the view with a number, of one that has gone, too; empty: there was no such view, or a template had made it, and it has gone.
func (o *Controller) NameOf(number uint32) string { return o.made.nameOf(number) }

// Serve puts the file in force when it has changed, and when reload says so, until ctx ends. To wait for what a view reads may take long: meanwhile it hears nothing.
// The file is read by another goroutine, which the end does not wait for: a read may take seconds.
func (o *Controller) Serve(ctx context.Context, reload <-chan os.Signal) {
	tick, stop := o.cfg.NewTicker(pace, func() bool { return true })
	defer stop()
	for {
		isAsked := false
		select {
		case <-ctx.Done():
			for len(o.adds) > 0 {
				o.noteAdded(ctx, <-o.outcomes)
			}
			return
		case <-reload:
			isAsked = true
		case <-o.made.wake:
			o.addMade(ctx, time.Now())
			continue
		case one := <-o.outcomes:
			o.noteAdded(ctx, one)
			continue
		case <-tick:
		}
		o.reread(ctx, isAsked)
		o.addMade(ctx, time.Now())
		o.removeDeparted(time.Now())
	}
}

// reread puts the file in force, if it says anything else than before. isAsked: it is read in any case.
func (o *Controller) reread(ctx context.Context, isAsked bool) {
	path := o.file.Load().Path
	read, ok := shutdown.Unless(ctx.Done(), func() *readResult { return o.read(path, isAsked) })
	switch {
	case !ok:
	case read != nil && read.err != nil:
		o.refused = nil
		o.refuse(read.err)
	case read != nil && (o.why != nil || read.file.Version != o.file.Load().Version):
		o.try(ctx, read.file)
	case read == nil && o.refused != nil && !time.Now().Before(o.again):
		o.try(ctx, o.refused)
	}
}

// try puts a file in force. One that cannot be used now may be later: the file of a view may come.
func (o *Controller) try(ctx context.Context, f *views.File) {
	err := o.replace(ctx, f)
	if err == nil {
		o.refused, o.why = nil, nil
		o.show()
		return
	}
	o.refused, o.again = f, time.Now().Add(retryPace)
	if shutdown.IsRefusal(err) && (o.why == nil || o.why.Error() != err.Error()) {
		o.refuse(err)
	}
}

// refuse notes why a file is not in force, and has that counted, also if it is what was wrong before: another text may be wrong in the same way.
func (o *Controller) refuse(err error) {
	o.why, o.row = err, ""
	o.cfg.Logger.Error("views refused; those before stay in force", "file", o.file.Load().Path, "err", err)
	o.show()
}

// show shows what is wrong with views where that is something else than before: with the file, or else with one that a template makes.
func (o *Controller) show() {
	why, f := o.why, o.file.Load()
	if why == nil {
		why = o.made.firstFailure()
	}
	text := ""
	if why != nil {
		text = why.Error()
	}
	if text == o.row {
		return
	}
	o.row = text
	if why == nil {
		o.cfg.Sources.TookViews(f.Path, f.Version)
		return
	}
	o.cfg.Sources.RefusedViews(f.Path, why)
}

// readResult is a file of views, or why it cannot be used.
type readResult struct {
	file *views.File
	err  error
}

// read reads the file. nil: it is not due, or changes meanwhile. There is one call at a time, but for the last one, behind the end.
func (o *Controller) read(path string, isAsked bool) *readResult {
	now := time.Now()
	stamp, due := o.watch.Due(path, now)
	if !due && !isAsked {
		return nil
	}
	text, err := views.ReadText(path)
	if !o.watch.Take(path, stamp, err) {
		return nil
	}
	o.watch.Again(err, now)
	if err != nil {
		return &readResult{err: err}
	}
	file, err := views.Parse(path, text)
	return &readResult{file, err}
}

// replace puts a file in force, or nothing of it: first the configurations of its views are there, then workloads see them, and then those go that it does not
// have any more.
func (o *Controller) replace(ctx context.Context, f *views.File) error {
	if err := f.Check(o.cfg.Served); err != nil {
		return err
	}
	o.made.assign(f)
	added, err := o.load(ctx, f)
	if err != nil {
		return err
	}
	missing := o.made.missing(o.byTemplates(f))
	// What has not come, or is not seen, is another one when it comes.
	defer o.made.freeNumbers(missing)
	ofTemplates, err := o.add(ctx, added, missing)
	if err != nil {
		return err
	}
	if len(added)+len(ofTemplates) > 0 {
		o.cfg.Await(ctx)
	}
	o.noteDepartures(f, time.Now())
	o.made.replaced(ofTemplates)
	o.take(f)
	o.endOthers(f)
	o.cfg.ChooseViews()
	o.cfg.Logger.Info("views are in force", "file", f.Path, "views", len(f.Views), "added", len(added)+len(ofTemplates), "departing", len(o.departs))
	return nil
}

// add puts views of a file in force, and those that its templates make, which it returns. A refusal of these refuses no file: they come later, without them.
func (o *Controller) add(ctx context.Context, ofFile []*source.Bootstrap, made []views.View) (ofTemplates []views.View, err error) {
	all := slices.Clip(ofFile)
	for _, v := range made {
		if b, err := o.cfg.Load(ctx, v); err == nil {
			all, ofTemplates = append(all, b), append(ofTemplates, v)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	err = o.cfg.Sources.Add(ctx, all)
	if err == nil || len(ofTemplates) == 0 || !shutdown.IsRefusal(err) {
		return ofTemplates, err
	}
	if len(ofFile) == 0 {
		return nil, nil
	}
	return nil, o.cfg.Sources.Add(ctx, ofFile)
}

// byTemplates are the views that templates of a file make for the workloads that there are, by their names.
func (o *Controller) byTemplates(f *views.File) map[string]views.View {
	list := map[string]views.View{}
	for _, facts := range o.cfg.Facts() {
		if v := f.Of(facts); v.Name != "" && v.Number == 0 {
			list[v.Name] = v
		}
	}
	return list
}

// load reads the bootstraps of the views that are new, or have another one. Those of templates it reads to find what is wrong with them.
func (o *Controller) load(ctx context.Context, f *views.File) (added []*source.Bootstrap, err error) {
	for _, v := range f.Views {
		if before, ok := o.there[v.Name]; ok && !v.IsTemplate() && before.HasSourcesOf(&v) {
			continue
		}
		checked := v.Checkable()
		b, err := o.cfg.Load(ctx, checked)
		if err != nil {
			return nil, fmt.Errorf("view %s: %w", checked.Name, err)
		}
		if !v.IsTemplate() {
			added = append(added, b)
		}
	}
	return added, nil
}

// noteDepartures notes which views there are, and which depart.
func (o *Controller) noteDepartures(f *views.File, now time.Time) {
	depart := map[string]time.Time{}
	for name := range o.there {
		depart[name] = now
		if since, ok := o.departs[name]; ok {
			depart[name] = since
		}
	}
	for _, v := range f.Views {
		if !v.IsTemplate() {
			o.there[v.Name] = v
			delete(depart, v.Name)
		}
	}
	o.departs = depart
}

// removeDeparted removes the views that depart once no connection of them is open, and those of templates that no workload sees. It retries those that cannot be
// removed.
func (o *Controller) removeDeparted(now time.Time) {
	if len(o.departs) == 0 && o.made.isEmpty() || now.Before(o.departAt) {
		return
	}
	o.departAt = now.Add(departPace)
	var names []string
	inUse := o.cfg.InUse()
	for name, since := range o.departs {
		if age := now.Sub(since); age >= departure || age >= arrival && !inUse[o.there[name].Number] {
			names = append(names, name)
		}
	}
	names = append(names, o.takeUnseen(inUse, now)...)
	o.show()
	if len(names) == 0 {
		return
	}
	if err := o.cfg.Sources.Remove(names); err != nil {
		o.departAt = now.Add(retryPace)
		if shutdown.IsRefusal(err) {
			o.cfg.Logger.Warn("removing views failed; will retry", "views", names, "err", err)
		}
		return
	}
	o.made.removed(names)
	for _, name := range names {
		delete(o.departs, name)
		delete(o.there, name)
	}
}

// takeUnseen takes the views of templates out that no workload sees, and returns the names of those that are to be removed.
func (o *Controller) takeUnseen(inUse map[uint32]bool, now time.Time) []string {
	if o.made.isEmpty() {
		return nil
	}
	seen := map[uint32]bool{}
	if o.made.mark(o.cfg.Seen(), inUse, now) {
		seen = o.cfg.Seen()
	}
	return o.made.takeLeaving(seen)
}

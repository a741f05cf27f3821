// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/internal/shutdown"
	"github.com/xlb-project/xlb/internal/source/intake"
)

// namesPatience is how long a view that comes waits for DNS, as a start does.
const namesPatience = 5 * time.Second

// Add puts the views of these bootstraps in force beside those that there are, or in place of those with their names, all at once, and has their sources read
// until ctx ends. First it waits for what they read, as Await does: what they replace is in force meanwhile. After an error all is as it was; it is
// shutdown.ErrEnding once ctx has ended. It is called behind Start.
func (s *Sources) Add(ctx context.Context, added []*Bootstrap) error {
	return s.AddWhile(ctx, ctx, added)
}

// AddWhile is Add for an attempt that may end before ctx does, from which it is derived: once it has ended, nothing is added any more, and the error is
// shutdown.ErrEnding, too.
func (s *Sources) AddWhile(ctx, attempt context.Context, added []*Bootstrap) error {
	fresh := make([]*viewSource, len(added))
	for i, b := range added {
		v := s.newSource(b)
		v.isNew, fresh[i] = true, v
	}
	replaced, err := s.addAll(ctx, attempt, fresh, added)
	if err != nil {
		for _, v := range fresh {
			v.leave()
		}
		return err
	}
	for _, v := range replaced {
		v.leave()
	}
	for _, v := range fresh {
		s.serve(v)
	}
	return nil
}

// addAll returns the Sources in place of which the new ones are.
func (s *Sources) addAll(ctx, attempt context.Context, fresh []*viewSource, with []*Bootstrap) (replaced []*viewSource, err error) {
	for i, v := range fresh {
		if err := v.Reactivate(); err != nil {
			return nil, fmt.Errorf("view %s: %w", v.view.Name, err)
		}
		v.Begin(with[i])
	}
	var all sync.WaitGroup
	for _, v := range fresh {
		all.Go(func() {
			v.Start(ctx)
			v.gather(attempt)
		})
	}
	all.Wait()
	return s.exchange(attempt, fresh)
}

// gather returns when all is there that a view reads, or its time is up, or ctx ends.
func (v *viewSource) gather(ctx context.Context) {
	v.awaitAmong(ctx, func(error) {})
	for late := time.Now().Add(namesPatience); !v.Resolved() && time.Now().Before(late) && ctx.Err() == nil; {
		time.Sleep(time.Millisecond)
	}
}

// exchange puts Sources in force that are new, unless the attempt has ended, and returns those in place of which they are.
func (s *Sources) exchange(attempt context.Context, fresh []*viewSource) (replaced []*viewSource, err error) {
	for _, v := range fresh {
		v.mu.Lock()
		defer v.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if attempt.Err() != nil {
		return nil, shutdown.ErrEnding
	}
	isNamed := func(v *viewSource) bool {
		return slices.ContainsFunc(fresh, func(one *viewSource) bool { return one.view.Name == v.view.Name })
	}
	list, replaced := s.without(isNamed)
	list = append(list, fresh...)
	slices.SortFunc(list, func(a, b *viewSource) int { return cmp.Compare(a.view.Number, b.view.Number) })
	// Before there is anything that asks for secrets.
	s.coming.Store(&fresh)
	defer s.coming.Store(nil)
	if err := s.activateWithinCapacity(list, replaced); err != nil {
		return nil, err
	}
	// Not before: what those have counted that are refused would leave the sums again, and their files would be followed.
	s.all.Store(s.all.Load().with(list, replaced))
	for _, v := range fresh {
		v.isNew = false
	}
	haveGone(replaced)
	return replaced, nil
}

// activateWithinCapacity is Source.activateWithinCapacity for what new Sources have gathered, in place of others. The caller holds mu, and those of the new Sources.
func (s *Sources) activateWithinCapacity(list, replaced []*viewSource) error {
	wrong := map[*viewSource]*intake.Refusal{}
	for {
		err := s.activateParts(partsOf(list))
		if err == nil {
			break
		}
		if !comeAllWithout(err, list, replaced, wrong) {
			return err
		}
	}
	for v, of := range wrong {
		v.intake.Record(intake.Whole, "", of)
	}
	return nil
}

// comeAllWithout is comeWithout for all new views that have the cluster: they may be many, and each attempt takes long. false: none of them has.
func comeAllWithout(err error, list, replaced []*viewSource, wrong map[*viewSource]*intake.Refusal) (some bool) {
	for _, v := range list {
		if v.isNew && v.dynamic != nil && v.comeWithout(err, replaced, wrong) {
			some = true
		}
	}
	return some
}

// comeWithout has a new view be without its cluster that there is no room for, or with the one that it had, and adds that to what is wrong. false: that is not
// what an error says. The caller holds mu, and that of the Source: what the view reads next is compared with what is in force.
func (v *viewSource) comeWithout(err error, replaced []*viewSource, wrong map[*viewSource]*intake.Refusal) bool {
	err = errorIn(v.view, err)
	full, is := errors.AsType[*reconcile.FullError](err)
	if !is {
		return false
	}
	before := &model.Config{}
	if i := slices.IndexFunc(replaced, func(r *viewSource) bool { return r.view.Name == v.view.Name }); i >= 0 && replaced[i].part != nil {
		before = replaced[i].part
	}
	if wrong[v] == nil {
		wrong[v] = v.intake.Wrong(intake.Whole)
	}
	less := v.leaveOut(err, v.part, before, wrong[v])
	if less == nil {
		return false
	}
	v.part = less
	for _, of := range []**model.Config{&v.desired, &v.unresolved} {
		if changed := withCluster(*of, less, full.Cluster); changed != nil {
			*of = changed
		}
	}
	return true
}

// Remove takes the views with these names out of force. After an error all is as it was.
func (s *Sources) Remove(names []string) error {
	gone, err := s.remove(names)
	for _, v := range gone {
		v.leave()
	}
	return err
}

func (s *Sources) remove(names []string) ([]*viewSource, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, gone := s.without(func(v *viewSource) bool { return slices.Contains(names, v.view.Name) })
	if err := s.activateParts(partsOf(list)); err != nil {
		return nil, err
	}
	s.all.Store(s.all.Load().with(list, gone))
	haveGone(gone)
	return gone, nil
}

// without divides the Sources by whether they are such. The caller holds mu.
func (s *Sources) without(is func(*viewSource) bool) (others, such []*viewSource) {
	for _, v := range s.list() {
		if is(v) {
			such = append(such, v)
		} else {
			others = append(others, v)
		}
	}
	return others, such
}

// haveGone notes that Sources are to put nothing in force any more. The caller holds mu.
func haveGone(list []*viewSource) {
	for _, v := range list {
		v.hasGone = true
	}
}

// leave ends all that a view which has gone reads. Sources.mu is not held: what is under way may wait for it.
func (v *viewSource) leave() {
	v.end()
	v.serving.Wait()
	v.halt()
	v.Stop()
	v.Close()
}

// ServeReloads is Source.ServeReloads for all views, also for those that are added: reload has all files read again.
func (s *Sources) ServeReloads(ctx context.Context, reload <-chan os.Signal) {
	s.setBeginServe(func(v *viewSource) {
		its, end := context.WithCancel(ctx)
		v.end = end
		v.serving.Go(func() { v.ServeReloads(its, v.again) })
	})
	for _, v := range s.list() {
		s.serve(v)
	}
	for {
		select {
		case <-ctx.Done():
			s.setBeginServe(nil)
			for _, v := range s.list() {
				v.serving.Wait()
			}
			return
		case signal := <-reload:
			for _, v := range s.list() {
				select {
				case v.again <- signal:
				default: // it has yet to begin with the one before
				}
			}
		}
	}
}

// setBeginServe has serve look at the files of views; nil: of no further view.
func (s *Sources) setBeginServe(serve func(*viewSource)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beginServe = serve
}

// serve looks at the file of a view, if files are looked at and this one is not yet.
func (s *Sources) serve(v *viewSource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.beginServe == nil || v.isServed || v.hasGone {
		return
	}
	v.isServed = true
	s.beginServe(v)
}

// TookViews notes that the file of views at a path is in force, with that version, RefusedViews why it is not.
func (s *Sources) TookViews(path, version string) { s.views.Take(intake.ViewsKey(path), version) }

// RefusedViews is described with TookViews.
func (s *Sources) RefusedViews(path string, why error) {
	s.views.Refuse(intake.ViewsKey(path), intake.RefusalOf(why), false)
}

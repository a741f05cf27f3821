// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/xlb-project/xlb/internal/merge"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/internal/shutdown"
	"github.com/xlb-project/xlb/internal/source/intake"
)

const (
	// sharedPatience is how long a view whose cluster has changed waits for the other views that share it: longer than files of resources are looked at again
	// (filePace), and than a control plane takes to send the same to several streams.
	sharedPatience = 300 * time.Millisecond
	// sharedApart is how long a view that had to leave a cluster has one of its own at least: a view that is later than the others at each change, by more than
	// they wait for it, would leave and come back with cold connections each time.
	sharedApart = 10 * time.Second
	// mergePace is between two attempts to put in force what a view has waited for.
	mergePace = time.Second
	// mostWhys bounds the reasons for which that fails which are logged, until nothing fails any more.
	mostWhys = 64
)

// merging makes one configuration of those of all views, again when a view has waited long enough for others.
type merging struct {
	*merge.Merger
	log *slog.Logger
	// again runs at the earlier one of due and chance; nil: both are zero.
	again *time.Timer
	// due is when there is something to merge again for views that are not held, or for a merge that has failed; zero: there is not.
	due time.Time
	// chance is when the first of those that are held has its next one; zero: no view is held.
	chance time.Time
	ended  bool
	// held are views that wait on for what cannot be put in force, the one first that gets the next chance.
	held []merge.Waiter
	// isShort: what is equal becomes one with the next merge, since there was no room for something.
	isShort bool
	// whys are why something cannot be put in force, as was logged; nil: all is in force.
	whys map[string]bool
}

func newMerging(log *slog.Logger) merging {
	return merging{Merger: merge.New(merge.Times{Patience: sharedPatience, Apart: sharedApart}), log: log}
}

// activateParts puts in force what the Sources say. What a view has waited for keeps no other from being changed: if it cannot be put in force the view has what it
// had, and there will be a retry. Needs s.mu.
func (s *Sources) activateParts(parts []*model.Config) error {
	m, held := &s.merging, s.merging.held
	var why error
	mergeParts, isApart := m.Merge, false
	if m.isShort {
		mergeParts = m.MergeShort
	}
	for {
		merged := mergeParts(parts, time.Now(), held...)
		err := s.activateMerged(merged)
		if err == nil {
			m.held = slices.DeleteFunc(held, func(w merge.Waiter) bool { return !merged.Waits(w) })
			m.isShort = false
			s.tookMerged(why)
			s.scheduleMerge(merged.Next)
			return nil
		}
		_, isFull := errors.AsType[*reconcile.FullError](err)
		switch {
		case isFull && merged.Twins && !m.isShort:
			mergeParts, m.isShort = m.MergeShort, true
			continue
		case !isFull && merged.Joined && !isApart:
			mergeParts, isApart = m.MergeApart, true
			continue
		}
		more := toHold(merged, err)
		if len(more) == 0 {
			s.retryUnfinished(err)
			return err
		}
		held, why = append(slices.Clip(held), more...), err
	}
}

// retryUnfinished has the parts that there are after an error be merged again: what is in force in part is put right, and what is equal gives room. Needs s.mu.
func (s *Sources) retryUnfinished(err error) {
	m := &s.merging
	_, isUnfinished := errors.AsType[*reconcile.UnfinishedError](err)
	if due := time.Now().Add(mergePace); (isUnfinished || m.isShort) && (m.due.IsZero() || due.Before(m.due)) {
		s.scheduleMerge(due)
	}
}

// toHold are the views that have waited for what cannot be in force for that reason. A full table names the cluster; anything else may be for any of them.
func toHold(merged *merge.Merged, err error) []merge.Waiter {
	if errors.Is(err, shutdown.ErrEnding) {
		return nil
	}
	if full, is := errors.AsType[*reconcile.FullError](err); is {
		if list := merged.WaitedFor(full.Cluster); len(list) > 0 {
			return list
		}
	}
	return merged.Waited
}

// tookMerged notes that all is in force, if it was not, but for what views that are held have waited for: why says of the last of them, nil: that is known. Needs s.mu.
func (s *Sources) tookMerged(why error) {
	switch {
	case why != nil:
		s.notMerged(why)
	case len(s.merging.held) == 0 && s.merging.whys != nil:
		s.merging.whys = nil
		s.views.Take(intake.Shared, "")
	}
}

// notMerged logs and shows why something is not in force, each reason once: it may be so for hours. Needs s.mu.
func (s *Sources) notMerged(err error) {
	m := &s.merging
	if why := err.Error(); !m.whys[why] && len(m.whys) < mostWhys {
		m.log.Error("clusters that views share are not in force as these views have them now; will retry", "err", err)
		if m.whys == nil {
			m.whys = map[string]bool{}
		}
		m.whys[why] = true
		s.views.Refuse(intake.Shared, intake.RefusalOf(err), false)
	}
}

func (s *Sources) activateMerged(merged *merge.Merged) error {
	if err := s.cfg.Activate(merged.Config); err != nil {
		if _, is := errors.AsType[*reconcile.UnfinishedError](err); is {
			s.merging.Tried(merged)
		}
		if full, is := errors.AsType[*reconcile.FullError](err); is {
			return &fullOf{full, merged.Config}
		}
		return err
	}
	s.merging.Accept(merged)
	return nil
}

// scheduleMerge has the same parts be merged again when that is due (zero: it is not), and when a view that is held has its next chance. What other views change
// puts that chance off no further. Needs s.mu.
func (s *Sources) scheduleMerge(due time.Time) {
	m := &s.merging
	m.due = due
	switch {
	case len(m.held) == 0:
		m.chance = time.Time{}
	case m.chance.IsZero():
		m.chance = time.Now().Add(mergePace)
	}
	at := m.due
	if at.IsZero() || !m.chance.IsZero() && m.chance.Before(at) {
		at = m.chance
	}
	if m.again != nil {
		m.again.Stop()
		m.again = nil
	}
	if !at.IsZero() && !m.ended {
		m.again = time.AfterFunc(time.Until(at), s.mergeAgain)
	}
}

// mergeAgain puts in force what views have waited for. Of those that are held one has its chance, if it is time: what they say may not go together.
func (s *Sources) mergeAgain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.merging
	if m.ended {
		return
	}
	if len(m.held) > 0 && !time.Now().Before(m.chance) {
		m.held, m.chance = slices.Clone(m.held[1:]), time.Time{}
	}
	if err := s.activateParts(partsOf(s.list())); err != nil && !errors.Is(err, shutdown.ErrEnding) {
		s.notMerged(err)
		s.scheduleMerge(time.Now().Add(mergePace))
	}
}

// endMerging has no view's cluster change any more.
func (s *Sources) endMerging() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.merging.ended = true
	s.scheduleMerge(time.Time{})
}

// fullOf is a FullError of a configuration.
type fullOf struct {
	full *reconcile.FullError
	cfg  *model.Config
}

// Error is that of the cluster.
func (e *fullOf) Error() string { return e.full.Error() }

// Unwrap returns the FullError.
func (e *fullOf) Unwrap() error { return e.full }

// errorIn gives the error of a full table the key that the cluster has in the configuration of one view. Where the cluster is of others it is an error like any
// other: that view can do nothing about it.
func errorIn(v model.View, err error) error {
	e, is := errors.AsType[*fullOf](err)
	if !is {
		return err
	}
	if e.cfg.In(v).Key(e.full.Cluster.Name) != e.full.Cluster {
		return fmt.Errorf("with the clusters of other views: %s", e.full.Error())
	}
	own := *e.full
	own.Cluster.View = v.Name
	return &own
}

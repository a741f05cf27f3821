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
	// mergePace is between two attempts to put in force what a view has waited for.
	mergePace = time.Second
	// mostWhys bounds the reasons for which that fails which are logged, until nothing fails any more.
	mostWhys = 64
)

// merging makes one configuration of those of all views, again when a view has waited long enough for others.
type merging struct {
	*merge.Merger
	log *slog.Logger
	// again is nil while no view waits.
	again *time.Timer
	at    time.Time
	ended bool
	// held are views that wait on for what cannot be put in force, the one first that gets the next chance.
	held []merge.Waiter
	// whys are why something cannot be put in force, as was logged; nil: all is in force.
	whys map[string]bool
}

func newMerging(log *slog.Logger) merging {
	return merging{Merger: merge.New(sharedPatience), log: log}
}

// activateParts puts in force what the Sources say. What a view has waited for keeps no other from being changed: if it cannot be put in force the view has what it
// had, and there will be a retry. Needs s.mu.
func (s *Sources) activateParts(parts []*model.Config) error {
	m, held := &s.merging, s.merging.held
	var why error
	for {
		merged := m.Merge(parts, time.Now(), held...)
		err := s.activateMerged(merged)
		if err == nil {
			m.held = slices.DeleteFunc(held, func(w merge.Waiter) bool { return !merged.Waits(w) })
			s.mergeAt(merged.Next)
			s.tookMerged(why)
			return nil
		}
		more := toHold(merged, err)
		if len(more) == 0 {
			return err
		}
		held, why = append(slices.Clip(held), more...), err
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
		s.mergeLater(why)
	case len(s.merging.held) > 0:
		s.mergeBy(time.Now().Add(mergePace))
	case s.merging.whys != nil:
		s.merging.whys = nil
		s.views.Take(intake.Shared, "")
	}
}

// mergeLater has the same parts be merged again in a while, and logs and shows why, each reason once: it may be so for hours. Needs s.mu.
func (s *Sources) mergeLater(err error) {
	m := &s.merging
	if why := err.Error(); !m.whys[why] && len(m.whys) < mostWhys {
		m.log.Error("clusters that views share are not in force as these views have them now; will retry", "err", err)
		if m.whys == nil {
			m.whys = map[string]bool{}
		}
		m.whys[why] = true
		s.views.Refuse(intake.Shared, intake.RefusalOf(err), false)
	}
	s.mergeBy(time.Now().Add(mergePace))
}

// mergeBy has the same parts be merged again at a time, if they are not before. Needs s.mu.
func (s *Sources) mergeBy(at time.Time) {
	if m := &s.merging; m.again == nil || at.Before(m.at) {
		s.mergeAt(at)
	}
}

func (s *Sources) activateMerged(merged *merge.Merged) error {
	if err := s.cfg.Activate(merged.Config); err != nil {
		if full, is := errors.AsType[*reconcile.FullError](err); is {
			return &fullOf{full, merged.Config}
		}
		return err
	}
	s.merging.Accept(merged)
	return nil
}

// mergeAt has the same parts be merged again at a time; zero: there is no need. Needs s.mu.
func (s *Sources) mergeAt(at time.Time) {
	m := &s.merging
	if m.again != nil {
		m.again.Stop()
		m.again = nil
	}
	m.at = at
	if !at.IsZero() && !m.ended {
		m.again = time.AfterFunc(time.Until(at), s.mergeAgain)
	}
}

// mergeAgain puts in force what views have waited for. Of those that are held one has its chance: what they say may not go together.
func (s *Sources) mergeAgain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.merging.ended {
		return
	}
	s.merging.again = nil
	if held := s.merging.held; len(held) > 0 {
		s.merging.held = slices.Clone(held[1:])
	}
	if err := s.activateParts(partsOf(s.list())); err != nil && !errors.Is(err, shutdown.ErrEnding) {
		s.mergeLater(err)
	}
}

// endMerging has no view's cluster change any more.
func (s *Sources) endMerging() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mergeAt(time.Time{})
	s.merging.ended = true
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

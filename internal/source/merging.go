// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/xlb-project/xlb/internal/merge"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
)

const (
	// sharedPatience is how long a view whose cluster has changed waits for the other views that share it: longer than files of resources are looked at again
	// (filePace), and than a control plane takes to send the same to several streams.
	sharedPatience = 300 * time.Millisecond
	// mergePace is between two attempts to put in force what a view has waited for.
	mergePace = time.Second
)

// merging makes one configuration of those of all views, again when a view has waited long enough for others.
type merging struct {
	*merge.Merger
	log *slog.Logger
	// again is nil while no view waits.
	again *time.Timer
	ended bool
}

func newMerging(log *slog.Logger) merging {
	return merging{Merger: merge.New(sharedPatience), log: log}
}

// activateParts puts in force what the Sources say. Needs s.mu.
func (s *Sources) activateParts(parts []*model.Config) error {
	merged := s.merging.Merge(parts, time.Now())
	if err := s.cfg.Activate(merged.Config); err != nil {
		if full, is := errors.AsType[*reconcile.FullError](err); is {
			return &fullOf{full, merged.Config}
		}
		return err
	}
	s.merging.Accept(merged)
	s.mergeAt(merged.Next)
	return nil
}

// mergeAt has the same parts be merged again at a time; zero: there is no need. Needs s.mu.
func (s *Sources) mergeAt(at time.Time) {
	m := &s.merging
	if m.again != nil {
		m.again.Stop()
		m.again = nil
	}
	if !at.IsZero() && !m.ended {
		m.again = time.AfterFunc(time.Until(at), s.mergeAgain)
	}
}

// mergeAgain puts in force what views have waited for. If that is not possible the views keep what they have, and there will be a retry.
func (s *Sources) mergeAgain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.merging.ended {
		return
	}
	if err := s.activateParts(partsOf(s.list())); err != nil {
		s.merging.log.Error("clusters that views shared are not in force yet as these views have them now", "err", err)
		s.mergeAt(time.Now().Add(mergePace))
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

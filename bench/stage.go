// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"github.com/xlb-project/xlb/bench/lab"
)

// staged is what one turn has beside the bed.
type staged struct {
	// peer as the load needs it.
	peer peer
	// processes serve in this turn only.
	processes []*lab.Process
	// undo takes away what is no process; nil for nothing.
	undo func() error
}

// stage prepares the turn of a peer under a load of the cases that vary one thing. What it has started is stopped after the turn.
func (b *bed) stage(ctx context.Context, p peer, l load, o options) (s staged, err error) {
	s.peer = p
	b.site.listeners, b.site.front, b.site.unrelated, b.site.clusters = nil, nil, nil, nil
	switch l.Case {
	case caseChain:
		return b.stageChain(ctx, p, l)
	case caseInterference:
		return b.stageInterference(ctx, p)
	case caseRules:
		return b.stageRules(ctx, p, l)
	case caseRate:
		if err = b.calibrate(ctx, l, o); err == nil {
			b.foreign, err = programAccounts()
		}
	}
	return s, err
}

// end takes everything away again.
func (s staged) end() error {
	err := stopAll(s.processes)
	if s.undo != nil {
		err = errors.Join(err, s.undo())
	}
	return err
}

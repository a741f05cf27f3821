// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"errors"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/peers"
)

// staged is what one turn has beside the bed.
type staged struct {
	// peer as the load needs it.
	peer peers.Peer
	// processes serve in this turn only.
	processes []*lab.Process
	// undo takes away what is no process; nil for nothing.
	undo func() error
}

// stage prepares the turn of a peer under a load of the cases that vary one thing. What it has started is stopped after the turn.
func (b *Bed) stage(ctx context.Context, p peers.Peer, l cases.Load, o cases.Options) (s staged, err error) {
	s.peer = p
	b.site.Listeners, b.site.Front, b.site.Unrelated, b.site.Clusters = nil, nil, nil, nil
	switch l.Case {
	case cases.Chain:
		return b.stageChain(ctx, p, l)
	case cases.Interference:
		return b.stageInterference(ctx, p)
	case cases.Rules:
		return b.stageRules(ctx, p, l)
	case cases.Rate:
		if err = b.calibrate(ctx, l, o); err == nil {
			b.foreign, err = programAccounts()
		}
	}
	return s, err
}

// end takes everything away again.
func (s staged) end() error {
	err := lab.StopAll(s.processes)
	if s.undo != nil {
		err = errors.Join(err, s.undo())
	}
	return err
}

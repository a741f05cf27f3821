// SPDX-License-Identifier: Apache-2.0

package density

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/podnet"
)

// Run measures everything. What was measured before an error or the end of ctx is in the report.
func Run(ctx context.Context, o Options, progress io.Writer) (r Report, err error) {
	if err := o.Validate(); err != nil {
		return r, err
	}
	r = Report{Started: time.Now(), Options: o}
	for _, n := range o.Counts {
		if err := r.count(ctx, n, progress); err != nil {
			return r, fmt.Errorf("%d services: %w", n, err)
		}
	}
	return r, nil
}

// count lets the peers take trials before so many services.
func (r *Report) count(ctx context.Context, services int, progress io.Writer) (err error) {
	n, err := podnet.New(lab.SameHost, services+1, r.Options.Tools)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	r.Files = n.Files
	if r.Options.Describe != nil {
		r.Machine = r.Options.Describe(n.Sysctl)
	}
	if err := n.StartServers(ctx, n.Pods); err != nil {
		return err
	}
	for round := range r.Options.Rounds {
		for _, peer := range podnet.Order(Peers(), r.Options.Peers, round) {
			t := Trial{Peer: peer, Services: services, Cycle: round + 1}
			if err := t.measure(ctx, n, &r.Options); err != nil {
				t.Failure = err.Error()
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r.Trials = append(r.Trials, t)
			fmt.Fprintln(progress, t)
		}
	}
	return nil
}

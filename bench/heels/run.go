// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/xlb-project/xlb/bench/lab"
)

// Options of a run.
type Options struct {
	Rounds   int           `json:"rounds"`
	Duration time.Duration `json:"duration_ns"`
	Warmup   time.Duration `json:"warmup_ns"`
	// Only names loads to measure, RR, CRR or set-up; empty: all.
	Only string `json:"only,omitempty"`
	XLB  string `json:"-"`
	// scratch is for configuration files.
	scratch string
}

// Run measures everything. What was measured before an error or the end of ctx is in the report.
func Run(ctx context.Context, o Options, progress io.Writer) (r Report, err error) {
	if o.Rounds < 1 || o.Duration <= 0 || o.Warmup < 0 {
		return r, fmt.Errorf("%d rounds of %s after %s: use at least one round and a duration", o.Rounds, o.Duration, o.Warmup)
	}
	lock, err := lab.Lock()
	if err != nil {
		return r, err
	}
	defer lock.Close()
	if o.scratch, err = os.MkdirTemp("", "xlb-bench-"); err != nil {
		return r, err
	}
	defer os.RemoveAll(o.scratch)
	b, end, err := prepare(o)
	if err != nil {
		return r, err
	}
	r = Report{Started: time.Now(), Options: o}
	for _, k := range kinds() {
		for _, l := range loads() {
			if !k.measures(l) || o.Only != "" && o.Only != l.Name {
				continue
			}
			if err := b.rounds(ctx, k, l, &r, progress); err != nil {
				return r, errors.Join(err, end())
			}
		}
	}
	return r, end()
}

// rounds lets the paths take turns, each second round in the other order: A B C C B A.
func (b *bench) rounds(ctx context.Context, k kind, l load, r *Report, progress io.Writer) error {
	paths := l.allPaths()
	for round := range b.options.Rounds {
		for i := range paths {
			path := paths[i]
			if round%2 == 1 {
				path = paths[len(paths)-1-i]
			}
			m := b.turn(ctx, k, l, path, round+1)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r.Turns = append(r.Turns, m)
			if m.Failure != "" {
				fmt.Fprintf(progress, "%s, %s, round %d, %s failed: %s\n", k.name, l, round+1, path, m.Failure)
				continue
			}
			fmt.Fprintf(progress, "%s, %s, round %d, %s: %.0f req/s  p50 %.0f us  connect %.0f us  %d errors\n", k.name, l, round+1, path, m.Rate, m.P50, m.Setup, m.Errors)
		}
	}
	return nil
}

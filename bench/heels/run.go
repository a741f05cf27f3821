// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/test/heels/stand"
)

// Options of a run.
type Options struct {
	Rounds   int           `json:"rounds"`
	Duration time.Duration `json:"duration_ns"`
	Warmup   time.Duration `json:"warmup_ns"`
	// Cases and Balancers name what is measured; empty: all.
	Cases     []string `json:"cases,omitempty"`
	Balancers []string `json:"balancers,omitempty"`
	// XLB, NGINX and Wrk are paths of programs; the last two may be empty where the case wrk is not measured.
	XLB   string `json:"-"`
	NGINX string `json:"-"`
	Wrk   string `json:"-"`
	// Describe returns what the report says of the machine; it reads sysctls as the client has them, named as "net/ipv4/tcp_rmem". nil: nothing.
	Describe func(sysctl func(name string) (string, error)) fmt.Stringer `json:"-"`
	// scratch is for configuration files and what nginx serves.
	scratch string
}

// Run measures everything. What was measured before an error or the end of ctx is in the report.
func Run(ctx context.Context, o Options, progress io.Writer) (r Report, err error) {
	if err := o.validate(); err != nil {
		return r, err
	}
	lock, err := lab.Lock()
	if err != nil {
		return r, err
	}
	defer lock.Close()
	if o.scratch, err = scratch(); err != nil {
		return r, err
	}
	defer os.RemoveAll(o.scratch)
	b, end, err := prepare(o)
	if err != nil {
		return r, err
	}
	r = Report{Started: time.Now(), Options: o}
	if r.Machine, err = b.describe(); err != nil {
		return r, errors.Join(err, end())
	}
	for _, k := range kinds() {
		for _, l := range chosen(o.Cases) {
			if !isNamed(o.Balancers, k.name) || !k.measures(l) {
				continue
			}
			if err := b.rounds(ctx, k, l, &r, progress); err != nil {
				return r, errors.Join(err, end())
			}
		}
	}
	r.Targets = r.judge()
	return r, end()
}

func (o Options) validate() error {
	if o.Rounds < 1 || o.Duration <= 0 || o.Warmup < 0 {
		return fmt.Errorf("%d rounds of %s after %s: use at least one round and a duration", o.Rounds, o.Duration, o.Warmup)
	}
	return errors.Join(known("case", o.Cases, Cases()), known("balancer", o.Balancers, Balancers()))
}

// NeedsHTTP reports whether nginx and wrk are run.
func (o Options) NeedsHTTP() bool { return isNamed(o.Cases, viaHTTP) }

func known(what string, names, all []string) error {
	for _, name := range names {
		if !isNamed(all, name) {
			return fmt.Errorf("%s %q: use one of %s", what, name, strings.Join(all, ", "))
		}
	}
	return nil
}

// describe looks at a host as turns have them.
func (b *bench) describe() (fmt.Stringer, error) {
	if b.options.Describe == nil {
		return nil, nil
	}
	s, err := stand.New(stand.Options{Cgroups: b.cgroups, Servers: 1})
	if err != nil {
		return nil, err
	}
	machine := b.options.Describe(func(name string) (value string, err error) {
		err = s.Client.Do(func() error {
			content, err := os.ReadFile(filepath.Join("/proc/sys", name))
			value = string(content)
			return err
		})
		return value, err
	})
	return machine, s.Close()
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

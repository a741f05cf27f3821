// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/internal/delegate"
	"github.com/xlb-project/xlb/internal/node"
)

// Which Envoy runs beside the daemon.
const (
	delegateOff  = "off"
	delegateAuto = "auto"
	// delegateName is what is looked for in PATH.
	delegateName  = "envoy"
	delegateUsage = "`envoy` that runs beside the daemon, with its configuration: a path, auto, envoy of PATH where that can be had, or off"
	// delegateMemory is what Envoy takes for some thousand routes, several times.
	delegateMemory = "512MiB"
)

func (f *runFlags) delegateFlags(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.delegate, "delegate", delegateOff, delegateUsage)
	flags.StringVar(&f.delegateMemory, "delegate-memory", delegateMemory, "`bytes` of memory that the delegate may take, with KiB, MiB or GiB; 0: no bound")
	flags.Float64Var(&f.delegateCPUs, "delegate-cpus", 0, "`processors` that the delegate may take, as 1.5; 0: no bound")
	completes(c, "delegate", delegateAuto, delegateOff)
}

// chooseDelegate says which Envoy runs beside the daemon. It comes behind chooseViews.
func (f *runFlags) chooseDelegate(o *node.Options) error {
	if f.delegate == delegateOff || f.delegate == "" {
		return nil
	}
	memory, err := bytesOf(f.delegateMemory)
	switch {
	case err != nil:
		return fmt.Errorf("--delegate-memory %q: %w", f.delegateMemory, err)
	case f.delegateCPUs < 0 || f.delegateCPUs > maxCPUs || math.IsNaN(f.delegateCPUs):
		return fmt.Errorf("--delegate-cpus %v: use a number of processors from 0 to %d", f.delegateCPUs, maxCPUs)
	case o.Views != nil:
		return errors.New("--delegate: a delegate has the configuration of --config alone; leave out --views or --delegate")
	}
	d := &node.Delegate{Program: f.delegate, Limits: delegate.Limits{Memory: memory, CPUs: f.delegateCPUs}}
	if f.delegate == delegateAuto {
		d.Program, d.Optional = delegateName, true
	}
	o.Delegate = d
	return nil
}

const (
	// maxCPUs is more than any machine has.
	maxCPUs = 8192
	// leastMemory is less than Envoy starts with.
	leastMemory = 16 << 20
)

var units = []struct {
	name  string
	bytes uint64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"", 1}}

// bytesOf is a size in bytes.
func bytesOf(text string) (uint64, error) {
	for _, u := range units {
		number, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil || n > math.MaxInt64/u.bytes {
			return 0, errors.New("use a size as 512MiB, or 0")
		}
		if n *= u.bytes; n > 0 && n < leastMemory {
			return 0, fmt.Errorf("too little for Envoy; use at least %dMiB, or 0", leastMemory>>20)
		}
		return n, nil
	}
	return 0, errors.New("use a size as 512MiB, or 0")
}

func delegateCells(d *admin.Delegate) []string {
	pid := ""
	if d.PID != 0 {
		pid = strconv.Itoa(d.PID)
	}
	return []string{
		d.State, d.Version, orDash(pid), number(uint64(d.User)), strconv.Itoa(len(d.Listeners)), fmt.Sprintf("%d MiB", d.MemoryBytes>>20), number(d.Starts), number(d.Ends),
		momentText(d.Since), orDash(printable(d.Why)),
	}
}

// delegateOf is the result about the delegate; nil: there is no delegate.
func delegateOf(list []admin.Delegate, err error) []check.Result {
	r := check.Result{Name: "delegate", Status: check.OK}
	switch {
	case err != nil:
		r.Status, r.Detail, r.Remedy = check.Degraded, err.Error(), useSameVersion
	case len(list) == 0:
		return nil
	case list[0].String() != "":
		r.Status, r.Detail = check.Degraded, printable(list[0].String())
		r.Remedy = "see docs/delegate.md, \"When it does not run\""
	default:
		r.Detail = fmt.Sprintf("%s: Envoy %s, %d listeners", list[0].State, list[0].Version, len(list[0].Listeners))
	}
	return []check.Result{r}
}

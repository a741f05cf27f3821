// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/plot"
	"github.com/xlb-project/xlb/bench/record"
)

// Save writes results.json, results.md and plots of each topology's kept-alive
// load, of its tables of routes and of what grows with one thing into dir.
func (r Report) Save(dir string) error {
	errs := []error{record.Save(dir, r, r.writeMarkdown)}
	for _, topology := range r.Options.Topologies() {
		if p := barsOf(r.Summary, topology); len(p.Groups) > 0 {
			errs = append(errs, record.WriteFile(filepath.Join(dir, plotName(topology)), p.Write))
		}
		errs = append(errs, r.saveScalePlots(dir, topology)...)
		if curves := curvesOf(r.Summary, topology); len(curves) > 0 {
			name := fmt.Sprintf("routes-%s.svg", topology)
			heading := fmt.Sprintf("Median latency in us by number of routes, %s host", topology)
			errs = append(errs, record.WriteFile(filepath.Join(dir, name), func(w io.Writer) error { return plot.Curves(w, heading, curves) }))
		}
	}
	return errors.Join(errs...)
}

func plotName(topology lab.Topology) string { return fmt.Sprintf("throughput-%s.svg", topology) }

// WriteJSON writes all of it, as results.json is.
func (r Report) WriteJSON(w io.Writer) error { return record.WriteJSON(w, r) }

// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/plot"
)

// Save writes results.json, results.md and plots of each topology's kept-alive
// load, of its tables of routes and of what grows with one thing into dir.
func (r Report) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	errs := []error{
		writeFile(filepath.Join(dir, "results.json"), r.WriteJSON),
		writeFile(filepath.Join(dir, "results.md"), r.writeMarkdown),
	}
	for _, topology := range r.Options.Topologies() {
		if p := barsOf(r.Summary, topology); len(p.Groups) > 0 {
			errs = append(errs, writeFile(filepath.Join(dir, plotName(topology)), p.Write))
		}
		errs = append(errs, r.saveScalePlots(dir, topology)...)
		if curves := curvesOf(r.Summary, topology); len(curves) > 0 {
			name := fmt.Sprintf("routes-%s.svg", topology)
			heading := fmt.Sprintf("Median latency in us by number of routes, %s host", topology)
			errs = append(errs, writeFile(filepath.Join(dir, name), func(w io.Writer) error { return plot.Curves(w, heading, curves) }))
		}
	}
	return errors.Join(errs...)
}

func plotName(topology lab.Topology) string { return fmt.Sprintf("throughput-%s.svg", topology) }

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// WriteJSON writes all of it, as results.json is.
func (r Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

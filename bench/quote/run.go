// SPDX-License-Identifier: Apache-2.0

package quote

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Run is a results.json, of the benchmark or of HEELS.
type Run struct {
	Started time.Time `json:"started"`
	Machine struct {
		Kernel   string            `json:"kernel"`
		CPU      string            `json:"cpu_model"`
		CPUs     int               `json:"cpus"`
		Versions map[string]string `json:"versions"`
		Sysctls  map[string]string `json:"sysctls"`
	} `json:"machine"`
	Options setting `json:"options"`
	// Parts are the runs that this one was merged of.
	Parts   []setting `json:"parts"`
	Targets []struct {
		Target string `json:"target"`
		// Measured is a median, or a spread, as those of rows; nil: it was not.
		Measured any  `json:"measured"`
		Met      bool `json:"met"`
	} `json:"targets"`
	Rows []map[string]any `json:"summary"`
	// Turns are those of HEELS, whose results have no rows.
	Turns []map[string]any `json:"turns"`
}

// setting is of a run, or of a part of one.
type setting struct {
	Rounds   int           `json:"rounds"`
	Duration time.Duration `json:"duration_ns"`
	XLB      string        `json:"xlb"`
}

// readRun reads the run that a marker names, DIRECTORY or DIRECTORY/NAME below results.
func readRun(results, name string) (*Run, error) {
	dir, file, found := strings.Cut(name, "/")
	if !found {
		file = "results"
	}
	text, err := os.ReadFile(filepath.Join(results, dir, file+".json"))
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", name, err)
	}
	var r Run
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("run %s: %w", name, err)
	}
	return &r, nil
}

// revisions are what `xlb version` said in the run: commits, with -dirty where the tree had more, or "dev".
func (r *Run) revisions() []string {
	var list []string
	for _, version := range append([]string{r.Machine.Versions["xlb"]}, each(r.Parts, func(p setting) string { return p.XLB })...) {
		words := strings.Fields(version)
		if len(words) > 1 && !slices.Contains(list, words[1]) {
			list = append(list, words[1])
		}
	}
	return list
}

// settings are those of the parts, or of the whole.
func (r *Run) settings() []setting {
	if len(r.Parts) > 0 {
		return r.Parts
	}
	return []setting{r.Options}
}

func each[T, U any](list []T, f func(T) U) []U {
	var values []U
	for _, v := range list {
		values = append(values, f(v))
	}
	return values
}

// query asks a run for a value.
type query struct {
	filters map[string]string
	// among is lowest or highest, where several rows may fit; empty: one does.
	among string
	path  string
}

// parseQuery reads what stands behind the run in a marker.
func parseQuery(words []string) (query, error) {
	if len(words) == 0 {
		return query{}, errors.New("no path of a value")
	}
	q := query{filters: map[string]string{}, path: words[len(words)-1]}
	for _, word := range words[:len(words)-1] {
		key, value, found := strings.Cut(word, "=")
		switch {
		case found:
			q.filters[key] = value
		case word == "lowest" || word == "highest":
			q.among = word
		default:
			q.filters["case"] = word
		}
	}
	return q, nil
}

// value is what the run says.
func (r *Run) value(q query) (float64, error) {
	if count, found := strings.CutPrefix(q.path, "targets."); found {
		return r.targets(count)
	}
	rows := r.rows(q.filters)
	if len(rows) == 0 || len(rows) > 1 && q.among == "" {
		return 0, fmt.Errorf("%d rows fit %v, want one, or lowest or highest", len(rows), q.filters)
	}
	var values []float64
	for _, row := range rows {
		v, err := sum(row, q.path)
		if err != nil {
			return 0, err
		}
		values = append(values, v)
	}
	if q.among == "highest" {
		return slices.Max(values), nil
	}
	return slices.Min(values), nil
}

// targets counts verdicts.
func (r *Run) targets(which string) (float64, error) {
	met, missed := 0, 0
	for _, t := range r.Targets {
		if t.Met {
			met++
		} else if t.Measured != nil {
			missed++
		}
	}
	switch which {
	case "met":
		return float64(met), nil
	case "missed":
		return float64(missed), nil
	case "measured":
		return float64(met + missed), nil
	}
	return 0, fmt.Errorf("targets.%s: there are met, missed and measured", which)
}

// rows are those that have all these settings; one that a row leaves out is 0.
func (r *Run) rows(filters map[string]string) (rows []map[string]any) {
	want := map[string]string{"topology": "same", "peer": "xlb"}
	for key, value := range filters {
		want[key] = value
	}
	for _, row := range r.Rows {
		if fits(row, want) {
			rows = append(rows, row)
		}
	}
	return rows
}

func fits(row map[string]any, want map[string]string) bool {
	for key, value := range want {
		got, found := row[key]
		if number, is := got.(float64); is {
			got = strconv.FormatFloat(number, 'f', -1, 64)
		}
		if !found {
			got = "0"
		}
		if got != value {
			return false
		}
	}
	return true
}

// sum adds up the values at A+B.
func sum(row map[string]any, paths string) (total float64, err error) {
	for path := range strings.SplitSeq(paths, "+") {
		v, err := at(row, path)
		if err != nil {
			return 0, err
		}
		total += v
	}
	return total, nil
}

// at follows a path with dots. Keys may have dots of their own, as p99.9_us has.
func at(row map[string]any, path string) (float64, error) {
	var here any = row
	for rest := path; rest != ""; {
		within, is := here.(map[string]any)
		if !is {
			return 0, fmt.Errorf("%s: %q is below no value", path, rest)
		}
		key := longestKey(within, rest)
		if key == "" {
			return 0, fmt.Errorf("%s: the row has no %q", path, rest)
		}
		here, rest = within[key], strings.TrimPrefix(rest[len(key):], ".")
	}
	number, is := median(here)
	if !is {
		return 0, fmt.Errorf("%s: no number", path)
	}
	return number, nil
}

// median is that of a spread, or a number itself.
func median(value any) (float64, bool) {
	if spread, is := value.(map[string]any); is {
		value = spread["median"]
	}
	number, is := value.(float64)
	return number, is
}

// longestKey is the key with which path begins, and behind which it ends or has a dot.
func longestKey(within map[string]any, path string) (longest string) {
	for key := range within {
		rest, found := strings.CutPrefix(path, key)
		if found && (rest == "" || rest[0] == '.') && len(key) > len(longest) {
			longest = key
		}
	}
	return longest
}

// SPDX-License-Identifier: Apache-2.0

// Package record writes down what a run has measured: its files, and each figure over the rounds.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Spread summarises one figure over the rounds.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Text has the median, the least and the most with so many decimals; "-" where ok is false.
func (s Spread) Text(decimals int, ok bool) string {
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.*f [%.*f..%.*f]", decimals, s.Median, decimals, s.Min, decimals, s.Max)
}

// SpreadOf is that of some values, in any order; ok is false where there is no value.
func SpreadOf(values []float64) (s Spread, ok bool) {
	if len(values) == 0 {
		return s, false
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + median) / 2
	}
	return Spread{Median: median, Min: sorted[0], Max: sorted[len(sorted)-1]}, true
}

// Save writes results.json, of a report's exported fields, and results.md, of its tables, into dir, which it makes.
func Save(dir string, report any, tables func(io.Writer) error) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return errors.Join(
		WriteFile(filepath.Join(dir, "results.json"), func(w io.Writer) error { return WriteJSON(w, report) }),
		WriteFile(filepath.Join(dir, "results.md"), tables),
	)
}

// WriteJSON writes a report as results.json is.
func WriteJSON(w io.Writer, report any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

// WriteFile makes a file, or replaces it.
func WriteFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

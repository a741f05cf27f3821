// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/bench/quote"
)

func newQuotesCommand() *cobra.Command {
	var update bool
	var replace []string
	cmd := &cobra.Command{
		Use:   "quotes",
		Short: "Hold the figures of README.md, bench/README.md and docs/ to the measured results that they quote",
		Long: "Hold the figures of README.md, bench/README.md and docs/ to the measured results that they quote.\n" +
			"Prints what differs, and exits with 2 if anything does. bench/METHOD.md says how a page quotes.",
		Example: "  scripts/figures\n" +
			"  scripts/figures --update\n" +
			"  scripts/figures --update --replace 2026-11-29-reference=2026-12-24-reference",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pages := &quote.Pages{Root: ".", Age: quote.GitAge(".")}
			if !update {
				if len(replace) > 0 {
					return errors.New("--replace needs --update")
				}
				return checkQuotes(pages)
			}
			for _, pair := range replace {
				old, run, found := strings.Cut(pair, "=")
				if !found || old == "" || run == "" {
					return fmt.Errorf("--replace %s: want OLD=NEW, two directories of bench/results", pair)
				}
				if err := pages.Replace(old, run); err != nil {
					return err
				}
			}
			changed, err := pages.Update()
			for _, path := range changed {
				fmt.Fprintln(cmd.OutOrStdout(), "updated", path)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&update, "update", false, "write what the runs say into the pages")
	cmd.Flags().StringArrayVar(&replace, "replace", nil, "OLD=NEW: quote the run NEW where the run OLD was quoted; repeat for several")
	return cmd
}

// checkQuotes says what is wrong with all pages.
func checkQuotes(pages *quote.Pages) error {
	paths, err := pages.Paths()
	if err != nil {
		return err
	}
	var faults []string
	for _, path := range paths {
		text, err := os.ReadFile(filepath.Join(pages.Root, path))
		if err != nil {
			return err
		}
		faults = append(faults, pages.Check(path, string(text))...)
	}
	if len(faults) > 0 {
		return fmt.Errorf("pages differ from the results that they quote; scripts/figures --update writes these:\n%s", strings.Join(faults, "\n"))
	}
	return nil
}

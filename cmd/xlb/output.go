// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// format is the value of --output.
type format string

const (
	formatText format = "text"
	formatJSON format = "json"
)

func (f *format) String() string { return string(*f) }

// Type implements pflag.Value; it stands in the help.
func (f *format) Type() string { return "text|json" }

// Set implements pflag.Value.
func (f *format) Set(s string) error {
	switch v := format(s); v {
	case formatText, formatJSON:
		*f = v
		return nil
	}
	return fmt.Errorf("must be text or json")
}

// outputFlag adds --output to a command.
func outputFlag(c *cobra.Command) *format {
	f := formatText
	c.Flags().VarP(&f, "output", "o", "`format` of the output: text or json")
	completes(c, "output", string(formatText), string(formatJSON))
	return &f
}

func writeJSON(w io.Writer, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}

// writeTable writes rows under a header in aligned columns.
func writeTable(w io.Writer, header []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(header, "\t"))
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/plural"
)

func checkCommand(e *env) *cobra.Command {
	var file, views, address string
	var envoyHeaders bool
	var pid int
	c := &cobra.Command{
		Use:   "check",
		Short: "Say what this machine can do, and whether a configuration is valid",
		Long: `Checks kernel, cgroup setup, privileges and limits, by probing and not by version
numbers, and says what degrades and what to change. With --config it also reads a
configuration, and the files that it names, and reports every problem in them; with --views
it does so for a file of views and for the configuration of each view. Where a daemon runs
it says what that has taken off the fast path, what it has refused of its configuration, and
which capabilities it keeps and lacks.

The verdict is "fast path", "slow path only" (requests are served, but through the
daemon), "configuration refused", or "cannot run". Exit code 2 means that the machine cannot
run XLB or that the configuration is not valid.

With --pid it says of a process, instead, whether a daemon balances its connections to
service addresses, and of each reason why not what to do: by the programs that are attached
to its cgroup, and not by what a daemon says. Connections that the process opened before the
daemon served stay as they are. Exit code 1 means that it is not balanced.`,
		Example: "  xlb check\n  xlb check --config envoy.yaml\n  xlb check --config envoy.yaml --views views.yaml\n  xlb check --output json\n  xlb check --pid 4711",
		Args:    noArguments,
	}
	c.Flags().StringVarP(&file, "config", "c", "", "Envoy v3 bootstrap `file`, YAML or JSON, to check too")
	c.Flags().StringVar(&views, "views", "", "`file` of views: check it, and the bootstrap of each view, too")
	c.Flags().BoolVar(&envoyHeaders, "envoy-headers", false, "with --config and --views: as \"xlb run --envoy-headers\" would read them")
	c.Flags().StringVar(&address, "admin", admin.DefaultAddress, adminUsage)
	c.Flags().IntVar(&pid, "pid", 0, "`number` of a process: say whether it is balanced")
	for _, other := range []string{"config", "views", "admin", "envoy-headers"} {
		c.MarkFlagsMutuallyExclusive("pid", other)
	}
	output := outputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if c.Flags().Changed("pid") {
			return checkProcess(e, *output, pid)
		}
		report := checkReport{Report: check.Run()}
		report.Results = append(report.Results, checkDaemon(c.Context(), address, c.Flags().Changed("admin"))...)
		if file != "" {
			report.take(checkConfig(file, config.EnvoyHeaders(envoyHeaders)))
		}
		if views != "" {
			report.takeViews(checkViews(views, config.EnvoyHeaders(envoyHeaders)))
		}
		if err := report.print(e, *output); err != nil {
			return err
		}
		return report.err()
	}
	return c
}

// checkReport is what "xlb check" prints.
type checkReport struct {
	*check.Report
	Config *configReport `json:"config,omitempty"`
	Views  *viewsReport  `json:"views,omitempty"`
}

// configurationRefused is the verdict on a machine that could run XLB, but not with this configuration.
const configurationRefused check.Verdict = "configuration refused"

// take adds what was found out about a configuration. The verdict is about both.
func (r *checkReport) take(c *configReport) {
	r.Config = c
	r.judge(c.Valid)
}

// judge makes a verdict on the machine one on a configuration, too.
func (r *checkReport) judge(valid bool) {
	if !valid && r.Verdict != check.CannotRun {
		r.Verdict = configurationRefused
	}
}

// configReport is the outcome of reading a configuration.
type configReport struct {
	File  string `json:"file"`
	Valid bool   `json:"valid"`
	// Problems, one line each.
	Problems  []string `json:"problems"`
	Listeners int      `json:"listeners"`
	Clusters  int      `json:"clusters"`
}

func checkConfig(file string, change ...config.Option) *configReport {
	r := &configReport{File: file, Problems: []string{}}
	cfg, err := readConfig(file, change...)
	if err != nil {
		r.Problems = linesOf(err)
		return r
	}
	r.Valid, r.Listeners, r.Clusters = true, len(cfg.Listeners), len(cfg.Clusters)
	return r
}

// linesOf are the problems in an error, one line each.
func linesOf(err error) (lines []string) {
	for line := range strings.Lines(err.Error()) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// readConfig reads a bootstrap, and the files that it names.
func readConfig(file string, change ...config.Option) (*model.Config, error) {
	b, err := config.LoadBootstrap(file, change...)
	if err != nil {
		return nil, err
	}
	return b.CheckFiles()
}

// err is nil when a daemon could start here with this configuration.
func (r *checkReport) err() error {
	var errs []error
	if r.Verdict == check.CannotRun {
		for _, result := range r.Results {
			if result.Status == check.Missing && result.Remedy != "" {
				errs = append(errs, fmt.Errorf("%s: %s; %s", result.Name, result.Detail, result.Remedy))
			}
		}
	}
	if r.Config != nil {
		for _, problem := range r.Config.Problems {
			errs = append(errs, errors.New(problem))
		}
	}
	if r.Views != nil {
		errs = append(errs, r.Views.errs()...)
	}
	return refused(errors.Join(errs...))
}

func (r *checkReport) print(e *env, output format) error {
	if output == formatJSON {
		return writeJSON(e.stdout, r)
	}
	rows := checkRows(r.Results)
	if r.Config != nil {
		rows = append(rows, r.Config.row("configuration"))
	}
	if r.Views != nil {
		rows = append(rows, r.Views.rows()...)
	}
	if err := writeTable(e.stdout, []string{"CHECK", "STATUS", "DETAIL"}, rows); err != nil {
		return err
	}
	printRemedies(e, r.Results)
	hint := ""
	if r.Verdict == check.SlowPathOnly {
		hint = ": xlb run serves every request itself (--fast-path=off, or auto)"
	}
	fmt.Fprintf(e.stdout, "\nverdict: %s%s\n", r.Verdict, hint)
	return nil
}

// row is a configuration as a row of a table.
func (r *configReport) row(name string) []string {
	if !r.Valid {
		return refusedRow(name, r.File, r.Problems)
	}
	return []string{name, string(check.OK), fmt.Sprintf("%s: %s, %s", r.File, plural.Of(r.Listeners, "listener"), plural.Of(r.Clusters, "cluster"))}
}

// refusedRow is a file that cannot be used as a row of a table.
func refusedRow(name, file string, problems []string) []string {
	return []string{name, "refused", fmt.Sprintf("%s: %s", file, plural.Of(len(problems), "problem"))}
}

// checkRows are results as a table.
func checkRows(results []check.Result) [][]string {
	rows := make([][]string, 0, len(results))
	for _, result := range results {
		rows = append(rows, []string{result.Name, string(result.Status), result.Detail})
	}
	return rows
}

// printRemedies lists what to change.
func printRemedies(e *env, results []check.Result) {
	heading := "\nto change:\n"
	for _, result := range results {
		if result.Status != check.OK && result.Remedy != "" {
			fmt.Fprintf(e.stdout, "%s  %s: %s\n", heading, result.Name, result.Remedy)
			heading = ""
		}
	}
}

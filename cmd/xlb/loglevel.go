// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/internal/admin"
)

// logLevels may be set.
var logLevels = []string{"debug", "info", "warn", "error", "off"}

func logLevelCommand(e *env) *cobra.Command {
	var address string
	c := &cobra.Command{
		Use:   "log-level [" + strings.Join(logLevels, "|") + "]",
		Short: "Show, or change, how much a running daemon logs",
		Long: `Shows the level of a running daemon's log, or changes it until the daemon ends, by its admin
API: POST /logging, as in Envoy. --log-level of "xlb run" is the level that it starts with.`,
		Example:   "  xlb log-level\n  xlb log-level debug\n  xlb log-level info --admin 127.0.0.1:9902 --output json",
		ValidArgs: logLevels,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && !slices.Contains(logLevels, args[0]) {
				return fmt.Errorf("log-level: want one of %s, or nothing to see which is set", strings.Join(logLevels, ", "))
			}
			return nil
		},
	}
	c.Flags().StringVar(&address, "admin", admin.DefaultAddress, adminUsage)
	output := outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		query := url.Values{"format": {"json"}}
		if len(args) == 1 {
			query.Set("level", args[0])
		}
		answer, err := sendAdmin(c.Context(), http.MethodPost, address, admin.LogPath+"?"+query.Encode())
		if err != nil {
			return err
		}
		return printLogLevel(e, *output, answer)
	}
	return c
}

func printLogLevel(e *env, output format, answer []byte) error {
	var l admin.LogLevel
	err := json.Unmarshal(answer, &l)
	if err == nil && l.Level == "" {
		err = errors.New("it names no level")
	}
	if err != nil {
		return fmt.Errorf("log-level: the daemon's answer is not ours: %w; use the xlb of the daemon's version", err)
	}
	if output == formatJSON {
		return writeJSON(e.stdout, l)
	}
	_, err = fmt.Fprintln(e.stdout, l.Level)
	return err
}

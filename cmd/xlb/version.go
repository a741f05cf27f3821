// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker: -X main.version=v1.2.3.
var version = "dev"

// versionReport is what "xlb version" prints.
type versionReport struct {
	Version string `json:"version"`
	// Commit is "" when the build did not record it.
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func versionCommand(e *env) *cobra.Command {
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    "Prints the version of this binary, the commit it was built from, and the Go version that built it.",
		Example: "  xlb version\n  xlb version --output json",
		Args:    noArguments,
	}
	output := outputFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		return printVersion(e, *output)
	}
	return c
}

func printVersion(e *env, output format) error {
	r := versionReport{
		Version: version, Commit: commit(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if output == formatJSON {
		return writeJSON(e.stdout, r)
	}
	built := r.Go + " " + r.Platform
	if r.Commit != "" {
		built = "commit " + r.Commit + ", " + built
	}
	_, err := fmt.Fprintf(e.stdout, "xlb %s (%s)\n", r.Version, built)
	return err
}

// commit is the revision that the Go tool recorded.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}

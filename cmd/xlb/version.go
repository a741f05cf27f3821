// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/internal/metrics"
)

// version is set by the linker: -X main.version=v1.2.3.
var version = "dev"

// build is this binary.
func build() metrics.Build {
	return metrics.Build{Version: version, Revision: commit(), Go: runtime.Version()}
}

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
		Long:    "Prints the version of this binary, the commit it was built from, and the Go version that built it.\n\"xlb --version\" prints the same.",
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
	if output == formatJSON {
		return writeJSON(e.stdout, newVersionReport())
	}
	_, err := io.WriteString(e.stdout, versionText())
	return err
}

func newVersionReport() versionReport {
	b := build()
	return versionReport{Version: b.Version, Commit: b.Revision, Go: b.Go, Platform: runtime.GOOS + "/" + runtime.GOARCH}
}

// versionText is the line that "xlb version" and "xlb --version" print.
func versionText() string {
	r := newVersionReport()
	built := r.Go + " " + r.Platform
	if r.Commit != "" {
		built = "commit " + r.Commit + ", " + built
	}
	return fmt.Sprintf("xlb %s (%s)\n", r.Version, built)
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

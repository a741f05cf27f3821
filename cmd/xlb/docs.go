// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// docsCommand is for those who make packages, and is in no list.
func docsCommand(*env) *cobra.Command {
	c := &cobra.Command{
		Use:     "docs",
		Short:   "Write reference documents",
		Long:    "Writes reference documents, for packages.",
		Example: "  xlb docs man /usr/local/share/man/man1",
		Hidden:  true,
	}
	c.AddCommand(&cobra.Command{
		Use:   "man DIRECTORY",
		Short: "Write the manual pages",
		Long: `Writes a manual page for each command into a directory, which it makes if there is none. The
pages have the date of SOURCE_DATE_EPOCH, in seconds of 1970, or today's.`,
		Example: "  xlb docs man /usr/local/share/man/man1",
		Args:    oneArgument("a directory", "/usr/local/share/man/man1"),
		RunE:    func(c *cobra.Command, args []string) error { return writeManual(c.Root(), args[0]) },
	})
	return c
}

func writeManual(root *cobra.Command, directory string) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return refused(fmt.Errorf("docs man: %w; name a directory that can be written", err))
	}
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Section: "1", Source: "xlb " + version, Manual: "XLB"}
	if err := doc.GenManTree(root, header, directory); err != nil {
		return refused(fmt.Errorf("docs man: %w; name a directory that can be written", err))
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// shells are those that there are scripts for, with how to write one. Cobra makes them; they ask this program what may come next.
var shells = []struct {
	name  string
	write func(root *cobra.Command, e *env) error
}{
	{"bash", func(root *cobra.Command, e *env) error { return root.GenBashCompletionV2(e.stdout, true) }},
	{"zsh", func(root *cobra.Command, e *env) error { return root.GenZshCompletion(e.stdout) }},
	{"fish", func(root *cobra.Command, e *env) error { return root.GenFishCompletion(e.stdout, true) }},
}

func shellNames() []string {
	names := make([]string, len(shells))
	for i, s := range shells {
		names[i] = s.name
	}
	return names
}

func completionCommand(e *env) *cobra.Command {
	names := shellNames()
	c := &cobra.Command{
		Use:   "completion " + strings.Join(names, "|"),
		Short: "Print a script with which a shell completes command lines of xlb",
		Long: `Prints a script for a shell, which then completes commands, flags and their values. That for
bash needs the package bash-completion.`,
		Example: "  source <(xlb completion bash)\n" +
			"  xlb completion bash >/etc/bash_completion.d/xlb\n" +
			"  xlb completion zsh >\"${fpath[1]}/_xlb\"\n" +
			"  xlb completion fish >~/.config/fish/completions/xlb.fish",
		ValidArgs: names,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(names, args[0]) {
				return fmt.Errorf("completion: want a shell, one of %s, as in: xlb completion bash", strings.Join(names, ", "))
			}
			return nil
		},
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		at := slices.Index(names, args[0])
		return shells[at].write(c.Root(), e)
	}
	return c
}

// isCompletion reports whether a script asks what may come next.
func isCompletion(args []string) bool {
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

// completes has a flag completed by its values.
func completes(c *cobra.Command, flag string, values ...string) {
	// It fails for a flag that there is not, or that has values already: a test completes each.
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

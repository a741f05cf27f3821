// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// helpCommand is "xlb help VERB", for "xlb VERB --help". Cobra's own shows the help of the program for a command that it does not know.
func helpCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Explain a command",
		Long:    "Explains a command, as its --help does, or the program.",
		Example: "  xlb help\n  xlb help run\n  xlb help heels status",
		Args: func(c *cobra.Command, args []string) error {
			_, err := helpedWith(c.Root(), args)
			return err
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			return helpTopics(c.Root(), args, begun), cobra.ShellCompDirectiveNoFileComp
		},
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		about, err := helpedWith(c.Root(), args)
		if err != nil {
			return err
		}
		// As ExecuteC does for the command that it runs.
		about.InitDefaultHelpFlag()
		about.InitDefaultVersionFlag()
		return about.Help()
	}
	return c
}

// helpedWith finds the command that words name.
func helpedWith(root *cobra.Command, words []string) (*cobra.Command, error) {
	c, rest, err := root.Find(words)
	if err != nil || len(rest) > 0 {
		return nil, fmt.Errorf("help: unknown command %q", strings.Join(words, " "))
	}
	return c, nil
}

// helpTopics are the commands below the one that words name, of which the name begins so.
func helpTopics(root *cobra.Command, words []string, begun string) (names []string) {
	c, err := helpedWith(root, words)
	if err != nil {
		return nil
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && strings.HasPrefix(sub.Name(), begun) {
			names = append(names, sub.Name()+"\t"+sub.Short)
		}
	}
	return names
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// maxTypos is how many letters of a command's name may be wrong until it is not suggested any more.
const maxTypos = 2

// nameOf is a command as error messages name it: without the program.
func nameOf(c *cobra.Command) string { return strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ") }

// noArguments is cobra.NoArgs, which takes an argument for a command that it does not know.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s: unexpected argument %q; it takes none", nameOf(c), args[0])
	}
	return nil
}

// oneArgument wants one, as the example has it.
func oneArgument(want, example string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("%s: %d arguments; want %s, as in: %s %s", nameOf(c), len(args), want, c.CommandPath(), example)
		}
		return nil
	}
}

// unknownCommand says what is wrong with a command line that names no command: Cobra shows the help of the commands above, as if
// it had been asked for.
func unknownCommand(root *cobra.Command, args []string) (*cobra.Command, error) {
	// What it cannot find it reports as the command above.
	c, rest, _ := root.Find(args)
	if c.Runnable() {
		return c, nil
	}
	for _, word := range rest {
		if strings.HasPrefix(word, "-") {
			continue
		}
		c.SuggestionsMinimumDistance = maxTypos
		if similar := c.SuggestionsFor(word); len(similar) > 0 {
			return c, fmt.Errorf("unknown command %q of %s; similar: %s", word, c.CommandPath(), strings.Join(similar, ", "))
		}
		return c, fmt.Errorf("unknown command %q of %s", word, c.CommandPath())
	}
	return c, nil
}

// usageError adds to what is wrong with a command line where the right one is described. What a verb refuses says that itself.
func usageError(c *cobra.Command, err error) error {
	var run *runError
	if err == nil || errors.As(err, &run) {
		return err
	}
	return fmt.Errorf("%w; see: %s --help", err, c.CommandPath())
}

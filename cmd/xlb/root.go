// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/internal/hangup"
)

// env is what a command sees of the world besides its arguments.
type env struct {
	stdout, stderr io.Writer
}

// verbs are all commands. Each has a file of its own.
func verbs(e *env) []*cobra.Command {
	return []*cobra.Command{
		runCommand(e),
		envoyCommand(e),
		checkCommand(e),
		getCommand(e),
		explainCommand(e),
		versionCommand(e),
		logLevelCommand(e),
		releaseCommand(e),
		joinCommand(e),
		demoCommand(e),
		demoClientCommand(e),
		heelsCommand(e),
		completionCommand(e),
		docsCommand(e),
	}
}

func rootCommand(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "xlb",
		Short: "Layer-7 load balancer without a proxy in the data path",
		Long: `XLB balances HTTP requests inside the kernel, at the socket layer: from an Envoy
configuration, without a proxy, a sidecar or a change to any application.`,
		// For --version, which says what the verb says.
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		// One line for each problem.
		DisableSuggestions: true,
	}
	// There is one in verbs, as all others are.
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetVersionTemplate(versionText())
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	root.AddCommand(verbs(e)...)
	root.SetHelpCommand(helpCommand())
	// Cobra does so when it runs, and the command is looked for before.
	root.InitDefaultHelpCmd()
	for _, verb := range root.Commands() {
		markRun(verb)
	}
	return root
}

// markRun makes what a verb returns distinguishable from what cobra finds wrong with
// its arguments.
func markRun(verb *cobra.Command) {
	for _, sub := range verb.Commands() {
		markRun(sub)
	}
	run := verb.RunE
	if run == nil {
		return
	}
	verb.RunE = func(c *cobra.Command, args []string) error {
		if c.Annotations[reloading] == "" {
			hangup.Default()
		}
		if err := run(c, args); err != nil {
			return &runError{err}
		}
		return nil
	}
}

// reloading is the annotation of commands that take SIGHUP for a reload.
const reloading = "reloads"

// reloads marks a command that calls hangup.Take. All others have the default action of SIGHUP.
func reloads(c *cobra.Command) *cobra.Command {
	c.Annotations = map[string]string{reloading: "by SIGHUP"}
	return c
}

// execute runs one command line, says what went wrong, and returns the exit code.
func execute(ctx context.Context, e *env, args []string) int {
	root := rootCommand(e)
	// Cobra takes nil for "those of the process".
	root.SetArgs(append([]string{}, args...))
	var c *cobra.Command
	var err error
	if !isCompletion(args) {
		c, err = unknownCommand(root, args)
	}
	if err == nil {
		c, err = root.ExecuteContextC(ctx)
	}
	if err = usageError(c, err); err != nil {
		printError(e.stderr, err)
	}
	return exitCode(err)
}

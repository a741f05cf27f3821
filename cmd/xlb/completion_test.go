// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestCompletionScripts(t *testing.T) {
	for shell, want := range map[string]string{"bash": "complete -o default", "zsh": "#compdef xlb", "fish": "complete -c xlb"} {
		code, stdout, stderr := call(t, "completion", shell)
		if code != exitOK || stderr != "" || !strings.Contains(stdout, want) || !strings.Contains(stdout, cobra.ShellCompRequestCmd) {
			t.Errorf("%s: code %d, stderr %q, and a script that lacks %q", shell, code, stderr, want)
		}
		program, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		check := exec.Command(program, "-n")
		check.Stdin = strings.NewReader(stdout)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s does not read it: %v: %s", shell, err, out)
		}
	}
}

// completed is what a shell offers behind words, the last of which is begun.
func completed(t *testing.T, words ...string) []string {
	t.Helper()
	code, stdout, _ := call(t, append([]string{cobra.ShellCompNoDescRequestCmd}, words...)...)
	if code != exitOK {
		t.Fatalf("%q: code %d", words, code)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	return lines[:len(lines)-1] // the last is about files
}

func TestShellsCompleteCommandsAndValues(t *testing.T) {
	for _, tt := range []struct{ words, want []string }{
		{[]string{"ver"}, []string{"version"}},
		{[]string{"help", "heels", "dr"}, []string{"drain"}},
		{[]string{"get", "li"}, []string{"listeners"}},
		{[]string{"get", "pools", "--output", ""}, []string{"text", "json"}},
		{[]string{"completion", ""}, []string{"bash", "zsh", "fish"}},
		{[]string{"log-level", "d"}, []string{"debug"}},
		{[]string{"run", "--fast-path", ""}, []string{"auto", "on", "off"}},
		{[]string{"run", "--when-down", ""}, []string{"pass", "fail"}},
		{[]string{"run", "--same-host", ""}, []string{"direct", "tcp"}},
		{[]string{"heels", "run", "--log-level", ""}, logLevels},
		{[]string{"heels", "drain", ""}, []string{"client", "server"}},
	} {
		if got := completed(t, tt.words...); !slices.Equal(got, tt.want) {
			t.Errorf("%q: got %q, want %q", tt.words, got, tt.want)
		}
	}
}

func TestManualHasAPageForEachCommand(t *testing.T) {
	directory := t.TempDir() + "/man1"
	if code, stdout, stderr := call(t, "docs", "man", directory); code != exitOK || stdout != "" || stderr != "" {
		t.Fatalf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	for _, c := range commands() {
		if c.Name() == "help" {
			continue // that is what the pages are
		}
		page, err := os.ReadFile(directory + "/" + strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1")
		if err != nil {
			t.Error(err)
			continue
		}
		if text := string(page); !strings.Contains(text, ".TH ") || c.Example != "" && !strings.Contains(text, ".SH EXAMPLE") {
			t.Errorf("page of %s:\n%.300s", c.CommandPath(), text)
		}
	}
	file := writeFile(t, "file", "")
	code, _, stderr := call(t, "docs", "man", file)
	if code != exitRefused || !strings.Contains(stderr, "name a directory that can be written") {
		t.Errorf("a file for a directory: code %d, stderr %q", code, stderr)
	}
}

// SPDX-License-Identifier: Apache-2.0

// Command envoyexamples shows how many of Envoy's published examples XLB takes: it has both check each bootstrap in a checkout of
// https://github.com/envoyproxy/examples, and writes docs/reference/envoy-examples.md.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

const usage = `usage: envoyexamples [--envoy PROGRAM] [--xlb PROGRAM] [--out FILE] CHECKOUT

Has Envoy (--mode validate) and XLB (xlb check --config) judge each bootstrap in CHECKOUT, a git checkout of Envoy's examples, and
writes a page of Markdown. Each file is judged in its own folder, because it names others from there. Nothing of the checkout is run or
changed. Exit code 2: something cannot be read, run or written.

example: git clone https://github.com/envoyproxy/examples && make envoy-examples EXAMPLES=examples
`

func main() {
	envoy := flag.String("envoy", "envoy", "")
	xlb := flag.String("xlb", "bin/xlb", "")
	out := flag.String("out", "docs/reference/envoy-examples.md", "")
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := write(*envoy, *xlb, *out, flag.Arg(0)); err != nil {
		fmt.Fprintf(os.Stderr, "envoyexamples: %v\n", err)
		os.Exit(2)
	}
}

// write judges a checkout and writes the page.
func write(envoy, xlb, out, checkout string) error {
	commit, err := output("git", "-C", checkout, "log", "-1", "--format=%h of %cs")
	if err != nil {
		return err
	}
	version, err := output(envoy, "--version")
	if err != nil {
		return err
	}
	files, err := bootstraps(checkout)
	if err != nil {
		return err
	}
	p := page{commit: commit, envoy: releaseOf(version)}
	for _, f := range files {
		e, err := judge(envoy, xlb, checkout, f)
		if err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		p.examples = append(p.examples, e)
	}
	return os.WriteFile(out, []byte(p.String()), 0o644)
}

// output is what a program writes, without spaces around it.
func output(name string, args ...string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(text)), nil
}

// release is in what envoy --version writes: "/usr/bin/envoy  version: COMMIT/1.40.0/Clean/RELEASE/BoringSSL".
var release = regexp.MustCompile(`version: [0-9a-f]+/([^/]+)/`)

// releaseOf is the release of Envoy, or all that it writes.
func releaseOf(version string) string {
	if m := release.FindStringSubmatch(version); m != nil {
		return m[1]
	}
	return version
}

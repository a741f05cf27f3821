// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Oldest is the oldest version of Envoy that is known to work as a delegate.
const Oldest = "1.30.0"

const (
	// versionWithin bounds how long a program may take to print its version: its file may have to come from a slow disk.
	versionWithin = time.Minute
	// maxPrinted is how many bytes are looked at of what it prints, and maxQuoted how many an error has of them.
	maxPrinted = 4 << 10
	maxQuoted  = 200
)

// Version runs the program with --version in the confinement, for at most a minute, and returns the version of Envoy that it is, such as "1.40.0". It is an
// error if it prints something else, fails, does not end in time, or is older than Oldest.
func (c *Confinement) Version(ctx context.Context, path string) (string, error) {
	printed, err := c.printed(ctx, path, "--version")
	if err != nil {
		return "", err
	}
	version, isEnvoy := versionIn(printed)
	if !isEnvoy {
		return "", fmt.Errorf("%s is not an Envoy: --version prints %q; %s", path, cut(printed), findRemedy)
	}
	if isOlder(version, Oldest) {
		return "", fmt.Errorf("%s is Envoy %s: a delegate has to be %s or later; install a later one, or name it with --delegate", path, version, Oldest)
	}
	return version, nil
}

// printed is the beginning of what a program prints that ends by itself.
func (c *Confinement) printed(ctx context.Context, path, arg string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionWithin)
	defer cancel()
	var printed []byte
	p, err := c.Start(Command{Path: path, Args: []string{arg}, Output: func(line []byte) {
		if len(printed)+len(line) < maxPrinted {
			printed = append(append(printed, line...), '\n')
		}
	}})
	if err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, p.Kill)
	defer stop()
	<-p.Done()
	switch err := p.Err(); {
	case err != nil && ctx.Err() != nil:
		return "", fmt.Errorf("%s %s did not end in time: %w", path, arg, ctx.Err())
	case err != nil:
		return "", fmt.Errorf("%s is not an Envoy that runs here: %s ends with %w, and prints %q; %s", path, arg, err, cut(string(printed)), findRemedy)
	}
	return string(printed), nil
}

// cut is the beginning of a text, for an error.
func cut(text string) string {
	text = strings.Trim(text, "\n")
	if len(text) <= maxQuoted {
		return text
	}
	return text[:maxQuoted] + "..."
}

// versionIn finds the version in what Envoy prints: "… version: COMMIT/1.40.0/Clean/RELEASE/BoringSSL".
func versionIn(printed string) (string, bool) {
	_, after, hasVersion := strings.Cut(printed, "version: ")
	line, _, _ := strings.Cut(after, "\n")
	parts := strings.Split(line, "/")
	if !hasVersion || len(parts) < 3 || numbersOf(parts[1]) == nil {
		return "", false
	}
	return parts[1], true
}

// numbersOf are the three numbers of a version, which may have a suffix as in "1.31.0-dev"; nil: it is not a version.
func numbersOf(version string) []uint64 {
	version, _, _ = strings.Cut(version, "-")
	parts := strings.Split(version, ".")
	if len(parts) != 3 {
		return nil
	}
	var numbers []uint64
	for _, part := range parts {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			return nil
		}
		numbers = append(numbers, n)
	}
	return numbers
}

func isOlder(version, than string) bool {
	return slices.Compare(numbersOf(version), numbersOf(than)) < 0
}

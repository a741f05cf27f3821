// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// example is a bootstrap and what came of it.
type example struct {
	// file is its path in the checkout.
	file string
	// envoy is why Envoy refuses it; empty: it does not.
	envoy string
	// problems are why XLB refuses it, each once.
	problems []finding
}

// finding is one reason of a refusal.
type finding struct {
	// field is the end of the field's path: its last two names, or empty.
	field string
	// reason is the rule, without the remedy.
	reason string
}

// judge has both programs check a file.
func judge(envoy, xlb, checkout, file string) (example, error) {
	e := example{file: file}
	dir, name := filepath.Split(filepath.Join(checkout, file))
	text, refused, err := run(dir, envoy, "--mode", "validate", "--log-level", "error", "--config-path", name)
	if err != nil {
		return e, err
	}
	if refused {
		e.envoy = reasonOfEnvoy(text)
	}
	program, err := filepath.Abs(xlb)
	if err != nil {
		return e, err
	}
	text, _, err = run(dir, program, "check", "--output", "json", "--config", name)
	if err != nil {
		return e, err
	}
	e.problems, err = problemsOf(text)
	return e, err
}

// run returns what a program writes, and whether its exit code is another than 0.
func run(dir, program string, args ...string) (text string, refused bool, err error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	out := &strings.Builder{}
	cmd.Stdout = out
	if !strings.Contains(strings.Join(args, " "), "json") {
		cmd.Stderr = out // Envoy's reasons; those of XLB are in its report
	}
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return out.String(), true, nil
	}
	return out.String(), false, err
}

// problemsOf reads the report of xlb check.
func problemsOf(report string) ([]finding, error) {
	var read struct {
		Config *struct {
			File     string   `json:"file"`
			Problems []string `json:"problems"`
		} `json:"config"`
	}
	if err := json.Unmarshal([]byte(report), &read); err != nil {
		return nil, fmt.Errorf("xlb check: %w", err)
	}
	if read.Config == nil {
		return nil, errors.New("xlb check says nothing of the configuration")
	}
	var list []finding
	for _, p := range read.Config.Problems {
		list = addOnce(list, findingOf(strings.TrimPrefix(p, read.Config.File+": ")))
	}
	return list, nil
}

func addOnce(list []finding, f finding) []finding {
	for _, known := range list {
		if known == f {
			return list
		}
	}
	return append(list, f)
}

var (
	// element is the index or key in a path.
	element = regexp.MustCompile(`\[[^\]]*\]`)
	// fieldPath is what stands in front of the reason.
	fieldPath = regexp.MustCompile(`^([a-z][^ ]*): `)
)

const typePrefix = "type.googleapis.com/"

// findingOf shortens a line of XLB: "PATH: not supported: RULE; REMEDY".
func findingOf(problem string) finding {
	var f finding
	if m := fieldPath.FindStringSubmatch(problem); m != nil {
		names := strings.Split(element.ReplaceAllString(m[1], ""), ".")
		f.field = strings.Join(names[max(0, len(names)-2):], ".")
		problem = problem[len(m[0]):]
	}
	f.reason, _, _ = strings.Cut(strings.TrimPrefix(problem, "not supported: "), "; ")
	if name, isType := strings.CutPrefix(f.reason, typePrefix); isType {
		f.reason = "XLB has no " + name
	}
	return f
}

var (
	// critical is the message with which Envoy ends.
	critical = regexp.MustCompile(`(?m)^.*\]\s*error initializing configuration '[^']*': (.*)$`)
	// unknownType is in those of an Envoy that was built without an extension.
	unknownType = regexp.MustCompile(`could not find @type 'type\.googleapis\.com/([^']*)'`)
)

// reasonOfEnvoy finds in the output of Envoy why it refuses a file.
func reasonOfEnvoy(output string) string {
	if m := unknownType.FindStringSubmatch(output); m != nil {
		return "this build of Envoy has no " + m[1]
	}
	if m := critical.FindStringSubmatch(output); m != nil {
		return m[1]
	}
	return "it says not why"
}

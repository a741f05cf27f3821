// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// tools finds the programs of the benchmark.
type tools struct {
	// xlb is the path of the xlb binary.
	xlb string
}

// toolDirs are searched after PATH: where the project's own downloads lie, and
// where Debian puts servers, which is not on every PATH.
var toolDirs = []string{".tools/bin", "/usr/local/sbin", "/usr/sbin"}

// toolSelf is this program: it has commands for servers and loads of its own.
const toolSelf = "bench"

// find returns the absolute path of a tool. The environment variable
// XLB_<TOOL>, XLB_ENVOY for instance, names one explicitly.
func (t tools) find(tool string) (string, error) {
	switch tool {
	case toolSelf:
		return os.Executable()
	case "xlb":
		return executable(t.xlb, "build it with \"make build\" or name it with --xlb")
	}
	variable := "XLB_" + strings.ToUpper(tool)
	if path := os.Getenv(variable); path != "" {
		return executable(path, variable+" names it")
	}
	if path, err := exec.LookPath(tool); err == nil {
		return filepath.Abs(path)
	}
	for _, dir := range toolDirs {
		if path, err := executable(filepath.Join(dir, tool), ""); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed: install it or name it in %s", tool, variable)
}

// executable returns the absolute path of a program that exists.
func executable(path, remedy string) (string, error) {
	found, err := exec.LookPath(path)
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, remedy)
	}
	return filepath.Abs(found)
}

// choosePeers resolves --peers. Peers that "all" asks for are left out when a
// program of theirs is missing, with the reason; a peer asked for by name must run.
func (t tools) choosePeers(names []string) (chosen []peer, skipped map[string]string, err error) {
	skipped = map[string]string{}
	everything := slices.Contains(names, all)
	for _, p := range peers() {
		named := slices.Contains(names, p.name)
		if !everything && !named {
			continue
		}
		missing := t.missing(p)
		switch {
		case missing == nil:
			chosen = append(chosen, p)
		case named:
			return nil, nil, fmt.Errorf("peer %s: %w", p.name, missing)
		default:
			skipped[p.name] = missing.Error()
		}
	}
	return chosen, skipped, nil
}

func (t tools) missing(p peer) error {
	for _, tool := range p.needs {
		if _, err := t.find(tool); err != nil {
			return err
		}
	}
	for _, proc := range p.processes {
		if _, err := t.find(proc.tool); err != nil {
			return err
		}
	}
	return nil
}

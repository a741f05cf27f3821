// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Tools finds the programs of the benchmark.
type Tools struct {
	// XLB is the path of the xlb binary.
	XLB string
}

// toolDirs are searched after PATH: where the project's own downloads lie, and
// where Debian puts servers, which is not on every PATH.
var toolDirs = []string{".tools/bin", "/usr/local/sbin", "/usr/sbin"}

// Self is this program: it has commands for servers and loads of its own.
const Self = "bench"

// Find returns the absolute path of a tool. The environment variable
// XLB_<TOOL>, XLB_ENVOY for instance, names one explicitly.
func (t Tools) Find(tool string) (string, error) {
	switch tool {
	case Self:
		return os.Executable()
	case "xlb":
		return executable(t.XLB, "build it with \"make build\" or name it with --xlb")
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

// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/bench/tools"
)

// AddApps notes what applications run on.
func (m *Machine) AddApps() {
	for _, tool := range []string{"java", "node", "/usr/bin/python3", "psql"} {
		if path, err := exec.LookPath(tool); err == nil {
			m.Versions[filepath.Base(tool)] = version(path, "--version")
		}
	}
}

// Machine describes where a run took place.
type Machine struct {
	Kernel   string `json:"kernel"`
	CPUModel string `json:"cpu_model"`
	CPUs     int    `json:"cpus"`
	// Versions of the programs by their tool's name.
	Versions map[string]string `json:"versions"`
	// Sysctls as the clients' namespace has them.
	Sysctls map[string]string `json:"sysctls"`
}

// recordedSysctls bear on the figures and are the same for all peers.
var recordedSysctls = []string{
	"net/ipv4/tcp_congestion_control", "net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem",
	"net/core/rmem_max", "net/core/wmem_max", "net/core/somaxconn",
	"net/ipv4/ip_local_port_range", "net/ipv4/tcp_tw_reuse",
}

// versionArgs make each tool print its version.
var versionArgs = map[string]string{
	"xlb": "version", "nginx": "-v", "haproxy": "-v", "envoy": "--version", "wrk": "-v", "fortio": "version",
}

// Describe reads sysctls with sysctl, which is told names with slashes.
func Describe(sysctl func(name string) (string, error), t tools.Tools) Machine {
	m := Machine{
		CPUs:     runtime.NumCPU(),
		Versions: map[string]string{"go": runtime.Version()},
		Sysctls:  map[string]string{},
	}
	m.Kernel = readTrimmed("/proc/sys/kernel/osrelease")
	m.CPUModel = cpuModel(readTrimmed("/proc/cpuinfo"))
	for tool, arg := range versionArgs {
		if path, err := t.Find(tool); err == nil {
			m.Versions[tool] = version(path, arg)
		}
	}
	for _, name := range recordedSysctls {
		if value, err := sysctl(name); err == nil {
			m.Sysctls[strings.ReplaceAll(name, "/", ".")] = strings.Join(strings.Fields(value), " ")
		}
	}
	return m
}

// String is a list in Markdown.
func (m Machine) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "- Linux %s, %d CPUs, %s\n", m.Kernel, m.CPUs, m.CPUModel)
	for _, list := range []map[string]string{m.Versions, m.Sysctls} {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			fmt.Fprintf(&b, "- %s: %s\n", name, list[name])
		}
	}
	return b.String()
}

func readTrimmed(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(content))
}

// cpuModel returns the model of the first processor of /proc/cpuinfo, which only
// some architectures name.
func cpuModel(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown (" + runtime.GOARCH + ")"
}

// version returns the first line that says something. The exit code says
// nothing: wrk -v fails.
func version(path, arg string) string {
	output, _ := exec.Command(path, arg).CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(output)), "\n")
	// wrk adds its copyright; Envoy and nginx begin with their names.
	line, _, _ = strings.Cut(line, " Copyright")
	if _, number, ok := strings.Cut(line, "version: "); ok {
		return number
	}
	return line
}

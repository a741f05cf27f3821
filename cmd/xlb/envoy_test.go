// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const envoyConfig = `
static_resources:
  listeners:
  - address: {socket_address: {address: 0.0.0.0, port_value: 8080}}
    filter_chains:
    - filters:
      - name: t
        typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: t, cluster: c}
  clusters: [{name: c}]
`

func TestNameOfEnvoyIsItsVerb(t *testing.T) {
	for program, want := range map[string][]string{
		"/opt/1.39.1/bin/envoy": {"envoy", "--version"}, "envoy": {"envoy", "--version"}, "xlb": {"--version"}, "/envoy/xlb": {"--version"},
	} {
		if got := envoyArguments(program, []string{"--version"}); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", program, got, want)
		}
	}
}

func TestDirectoriesOfNamesComeFromTheEnvironmentUnlessTheyAreGiven(t *testing.T) {
	t.Setenv(nameDirsVariable, "/run/netns:/srv/netns")
	for _, tt := range []struct {
		name        string
		given, want []string
	}{
		{"from the environment", nil, []string{"/run/netns", "/srv/netns"}},
		{"given", []string{"/run"}, []string{"/run"}},
		{"no directory is given", []string{""}, []string{""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := envoyFlags{path: "envoy.yaml", mode: "serve", headers: "on", logLevel: "info", namespaceDirs: tt.given}
			runs, _, err := f.runFlags(&env{})
			if err != nil || !slices.Equal(runs.namespaceDirs, tt.want) {
				t.Errorf("got %+v, %v, want %q", runs, err, tt.want)
			}
		})
	}
}

func TestEnvoysArguments(t *testing.T) {
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	if err := os.WriteFile(file, []byte(envoyConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, want string
		args       []string
		code       int
	}{
		{"a file", "configuration OK", []string{"-c", file}, 0},
		{"a text", "configuration OK", []string{"--config-yaml", envoyConfig}, 0},
		{"all that changes nothing", "configuration OK", []string{
			"--config-yaml", envoyConfig, "--service-cluster", "c", "--service-node", "n", "--service-zone", "z", "--concurrency", "2", "-l", "warn",
			"--cpuset-threads", "--drain-strategy", "immediate", "--component-log-level", "misc:error", "--drain-time-s", "60", "--base-id", "1",
			"--use-dynamic-base-id", "--restart-epoch", "0", "--admin-address-path", "a.txt", "--", "--run-id", "1",
		}, 0},
		{"neither", "xlb: give one of --config-path and --config-yaml: XLB does not merge bootstraps", nil, 1},
		{"both", "xlb: give one of --config-path and --config-yaml: XLB does not merge bootstraps", []string{"-c", file, "--config-yaml", envoyConfig}, 1},
		{"a hot restart", "xlb: --restart-epoch 1: not supported: there is no hot restart; use 0", []string{"-c", file, "--restart-epoch", "1"}, 1},
		{"a level", `xlb: --log-level "loud": not a level of Envoy's`, []string{"-c", file, "-l", "loud"}, 1},
		{"what Envoy has and XLB does not", "xlb: unknown flag: --enable-core-dump", []string{"-c", file, "--enable-core-dump"}, 2},
		{"a stray word", `xlb: envoy: unexpected argument "x"`, []string{"x", "-c", file}, 2},
		{"a broken bootstrap", "xlb: --config-yaml: static_resources.listeners: empty", []string{"--config-yaml", "admin: {}"}, 1},
		{"the version", "xlb dev", []string{"--version"}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := call(t, append([]string{"envoy", "--mode", "validate"}, tt.args...)...)
			if code != tt.code || !strings.HasPrefix(stdout+stderr, tt.want) {
				t.Errorf("got code %d, %q, want code %d, %q", code, stdout+stderr, tt.code, tt.want)
			}
		})
	}
}

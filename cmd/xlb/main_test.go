// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/test/golden"
)

// TestMain plays the processes that a demonstration starts from this binary.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "run":
			os.Exit(standIn(os.Args[2:]))
		case "demo-client":
			main()
		}
	}
	os.Exit(m.Run())
}

// call runs a command line.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = execute(t.Context(), &env{stdout: &out, stderr: &err}, args)
	return code, out.String(), err.String()
}

func compareOutput(t *testing.T, name, got string) {
	t.Helper()
	golden.Compare(t, filepath.Join("testdata", name), got)
}

func TestHelp(t *testing.T) {
	tests := [][]string{
		{}, {"run"}, {"check"}, {"get"}, {"explain"}, {"version"}, {"demo"}, {"envoy"},
		{"heels"}, {"heels", "run"}, {"heels", "check"}, {"heels", "probe"}, {"heels", "drain"}, {"heels", "detach"},
	}
	for _, args := range tests {
		name := strings.Join(append([]string{"xlb"}, args...), "-")
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := call(t, append(args, "--help")...)
			if code != exitOK || stderr != "" {
				t.Errorf("code %d, stderr %q", code, stderr)
			}
			compareOutput(t, name+".help", stdout)
		})
	}
}

func TestNoVerbGetsTheHelp(t *testing.T) {
	code, stdout, stderr := call(t)
	if code != exitOK || stderr != "" {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
	compareOutput(t, "xlb.help", stdout)
}

func TestEveryVerbExplainsItself(t *testing.T) {
	for _, c := range rootCommand(&env{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}).Commands() {
		if c.Hidden {
			continue
		}
		if c.Short == "" || c.Long == "" || c.Example == "" {
			t.Errorf("%s: Short, Long and Example must say something", c.Name())
		}
	}
}

func TestWrongCommandLinesGetOneLineAndCodeTwo(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"balance"}, `xlb: unknown command "balance" for "xlb"` + "\n"},
		{[]string{"version", "--nosuch"}, "xlb: unknown flag: --nosuch\n"},
		{[]string{"version", "extra"}, `xlb: unknown command "extra" for "xlb version"` + "\n"},
		{[]string{"version", "--output", "xml"}, `xlb: invalid argument "xml" for "-o, --output" flag: must be text or json` + "\n"},
		{[]string{"run"}, "xlb: --config: required: give an Envoy v3 bootstrap, as in: xlb run --config envoy.yaml\n"},
		{[]string{"get"}, "xlb: get: 0 resources named; name one of listeners, routes, clusters, endpoints, pools, connections, notes, stats\n"},
		{[]string{"explain", "GET"}, "xlb: explain: want a method and a URL, as in: xlb explain GET http://127.80.0.1:8080/cart\n"},
		{[]string{"get", "nosuch"}, `xlb: get: unknown resource "nosuch"; name one of listeners, routes, clusters, endpoints, pools, connections, notes, stats` + "\n"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			code, stdout, stderr := call(t, tt.args...)
			if code != exitRefused || stdout != "" || stderr != tt.want {
				t.Errorf("got code %d, stdout %q, stderr %q, want stderr %q", code, stdout, stderr, tt.want)
			}
		})
	}
}

func TestRunNamesTheCongestionControlsOfTheKernel(t *testing.T) {
	code, stdout, stderr := call(t, "run", "--config", "envoy.yaml", "--congestion-control", "tortoise")
	if code != exitRefused || stdout != "" || !strings.Contains(stderr, `--congestion-control: set congestion control "tortoise"`) || !strings.Contains(stderr, "reno") {
		t.Errorf("got code %d, stdout %q, stderr %q, want a refusal that names what there is", code, stdout, stderr)
	}
}

func TestExitCodeTellsWhoCanMendIt(t *testing.T) {
	plain := errors.New("broken")
	tests := []struct {
		name string
		err  error
		want int
	}{
		{"success", nil, exitOK},
		{"a verb fails", &runError{plain}, exitFailure},
		{"the command line is wrong", plain, exitRefused},
		{"a verb refuses", &runError{refused(plain)}, exitRefused},
		{"wrapped refusal", &runError{fmt.Errorf("run: %w", refused(plain))}, exitRefused},
		{"configuration", &runError{errors.Join(&config.FieldError{Path: "admin"}, &config.FieldError{Path: "node"})}, exitRefused},
		{"admin address", &runError{&admin.ListenError{Address: "a", Err: plain}}, exitRefused},
		{"no cgroup v2", &runError{fmt.Errorf("run: %w", check.ErrNoCgroup)}, exitRefused},
		{"interrupted", &runError{context.Canceled}, exitFailure},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := exitCode(tt.err); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
	if refused(nil) != nil {
		t.Error("refused(nil) is an error")
	}
}

func TestErrorsArePrintedOneLineForEachProblem(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"one", errors.New("a"), "xlb: a\n"},
		{"several", errors.Join(errors.New("a"), errors.New("b")), "xlb: a\nxlb: b\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			printError(&b, tt.err)
			if got := b.String(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	code, stdout, _ := call(t, "version")
	if code != exitOK || !strings.HasPrefix(stdout, "xlb dev (") || strings.Count(stdout, "\n") != 1 {
		t.Errorf("got %d %q", code, stdout)
	}
	var r versionReport
	decode(t, &r, "version", "--output", "json")
	if r.Version != "dev" || !strings.HasPrefix(r.Go, "go") || !strings.HasPrefix(r.Platform, "linux/") {
		t.Errorf("got %+v", r)
	}
}

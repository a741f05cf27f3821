// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/check"
)

// decode reads the JSON that a successful command line prints.
func decode(t *testing.T, into any, args ...string) {
	t.Helper()
	code, stdout, stderr := call(t, args...)
	if code != exitOK {
		t.Fatalf("code %d: %s", code, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), into); err != nil {
		t.Fatalf("%v\n%s", err, stdout)
	}
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCheckReportsEveryProblemOfAConfiguration(t *testing.T) {
	file := writeFile(t, "bad.yaml", "adminn: {}\nstatic_resources:\n  listenerss: []\n")
	code, stdout, stderr := call(t, "check", "--config", file)
	if code != exitRefused {
		t.Errorf("code: got %d, want %d", code, exitRefused)
	}
	for _, field := range []string{"adminn", "listenerss"} {
		if !strings.Contains(stderr, field) {
			t.Errorf("stderr does not name %q:\n%s", field, stderr)
		}
	}
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "xlb: ") {
			t.Errorf("line %q does not begin with the program's name", line)
		}
	}
	if !strings.Contains(stdout, file+": 3 problems\n") || !strings.HasSuffix(stdout, "\nverdict: configuration refused\n") {
		t.Errorf("stdout:\n%s", stdout)
	}

	code, stdout, _ = call(t, "check", "--config", file, "--output", "json")
	var r checkReport
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	if code != exitRefused || r.Config == nil || r.Config.Valid || len(r.Config.Problems) < 2 || r.Verdict != configurationRefused {
		t.Errorf("code %d, configuration %+v", code, r.Config)
	}
}

func TestCheckReportsAnUnreadableFile(t *testing.T) {
	code, _, stderr := call(t, "check", "--config", "/nonexistent/envoy.yaml")
	if code != exitRefused || !strings.Contains(stderr, "/nonexistent/envoy.yaml") {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
}

func TestCheckExitCodeAndTextFollowTheVerdict(t *testing.T) {
	low := check.Result{Name: "limit", Status: check.Degraded, Detail: "low", Remedy: "raise it"}
	tests := []struct {
		verdict check.Verdict
		results []check.Result
		code    int
		message string
	}{
		{check.FastPath, []check.Result{{Name: "btf", Status: check.OK, Detail: "vmlinux"}, low}, exitOK, ""},
		{check.SlowPathOnly, []check.Result{{Name: "btf", Status: check.Missing, Detail: "none", Remedy: "boot another"}, low}, exitOK, ""},
		{check.CannotRun, []check.Result{
			{Name: "privileges", Status: check.Missing, Detail: "without CAP_BPF", Remedy: "run as root"},
			{Name: "btf", Status: check.Missing, Detail: "not tried"},
		}, exitRefused, "privileges: without CAP_BPF; run as root"},
	}
	for _, tt := range tests {
		t.Run(string(tt.verdict), func(t *testing.T) {
			r := checkReport{Report: &check.Report{Verdict: tt.verdict, Kernel: "6.12.0", Results: tt.results}}
			err := r.err()
			if exitCode(err) != tt.code {
				t.Errorf("code: got %d, want %d", exitCode(err), tt.code)
			}
			if err != nil && err.Error() != tt.message {
				t.Errorf("message: got %q, want %q", err, tt.message)
			}
			var out bytes.Buffer
			if err := r.print(&env{stdout: &out}, formatText); err != nil {
				t.Fatal(err)
			}
			compareOutput(t, "check-"+strings.ReplaceAll(string(tt.verdict), " ", "-")+".txt", out.String())
		})
	}
}

func TestCheckTellsWhatADaemonHasTakenOffTheFastPath(t *testing.T) {
	rowOf := func(args ...string) (row *check.Result) {
		var r checkReport
		decode(t, &r, append([]string{"check", "--output", "json"}, args...)...)
		for i := range r.Results {
			if r.Results[i].Name == "running daemon" {
				row = &r.Results[i]
			}
		}
		return row
	}
	row := rowOf("--admin", adminAPI(t))
	want := check.Result{
		Name: "running daemon", Status: check.Degraded, Detail: "off the fast path: endpoint 10.0.0.1:80, 3 client connections: 24 x cut or short",
		Remedy: `see docs/operations.md, "When a guard fires"`,
	}
	if row == nil || *row != want {
		t.Errorf("got %+v, want %+v", row, want)
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	if row := rowOf("--admin", other.Listener.Addr().String()); row == nil || row.Status != check.Missing {
		t.Errorf("somebody else's address: %+v", row)
	}
	if r := checkDaemon(t.Context(), other.Listener.Addr().String(), false); r != nil {
		t.Errorf("somebody else's address, which nobody has named: %+v", r)
	}
}

func TestCheckTellsWhatADaemonHasRefused(t *testing.T) {
	results := checkDaemon(t.Context(), adminAPI(t), true)
	want := check.Result{
		Name: "daemon configuration", Status: check.Degraded,
		Detail: "bootstrap from /etc/xlb/envoy.yaml refused at 2026-01-02T03:04:05Z: admun: unknown field; and 4 more; and 1 more refused",
		Remedy: `what was before stays in force; "xlb get config" lists what is wrong: correct it, and it is taken`,
	}
	if len(results) != 4 || results[1] != want {
		t.Errorf("got %+v, want %+v behind the guards", results, want)
	}
	delegate := check.Result{
		Name: "delegate", Status: check.Degraded, Detail: "the delegate has an older configuration: no such filter", Remedy: `see docs/delegate.md, "When it does not run"`,
	}
	if len(results) != 4 || results[3] != delegate {
		t.Errorf("got %+v, want %+v as the last one", results, delegate)
	}
	at := time.Now()
	for _, c := range []struct {
		origins []admin.Origin
		err     error
		want    check.Status
	}{
		{[]admin.Origin{{Kind: "bootstrap", Taken: &at, Refused: 9}}, nil, check.OK}, // once, and mended
		{[]admin.Origin{{Kind: "bootstrap", Refusal: &admin.Refusal{At: at}}}, nil, check.Degraded},
		{nil, errors.New("an older daemon"), check.Degraded},
	} {
		if r := configurationOf(c.origins, c.err); r.Status != c.want {
			t.Errorf("%+v, %v: %+v", c.origins, c.err, r)
		}
	}
}

func TestCheckTellsWhichCapabilitiesADaemonKeeps(t *testing.T) {
	var r checkReport
	decode(t, &r, "check", "--output", "json", "--admin", adminAPI(t))
	want := check.Result{
		Name: "daemon capabilities", Status: check.Degraded,
		Detail: "keeps CAP_BPF, CAP_NET_ADMIN, CAP_SYS_NICE; lacks CAP_SYS_ADMIN (pods and containers), CAP_SYS_PTRACE (pods and containers), CAP_LEASE (the end of a change)",
		Remedy: `start the daemon with those whose features you need; see docs/operations.md, "Start"`,
	}
	if !slices.Contains(r.Results, want) {
		t.Errorf("got %+v, want %+v among them", r.Results, want)
	}
	for _, c := range []struct {
		list []admin.Capability
		err  error
		want check.Result
	}{
		{[]admin.Capability{{Name: "CAP_BPF", Held: true}}, nil, check.Result{Status: check.OK, Detail: "keeps CAP_BPF"}},
		{nil, nil, check.Result{Status: check.OK, Detail: "not known"}},
		{nil, errors.New("an older daemon"), check.Result{Status: check.Degraded, Detail: "an older daemon", Remedy: useSameVersion}},
	} {
		c.want.Name = "daemon capabilities"
		if got := capabilitiesOf(c.list, c.err); got != c.want {
			t.Errorf("got %+v, want %+v", got, c.want)
		}
	}
}

func TestOffTextIsALine(t *testing.T) {
	off := slices.Repeat([]admin.Guarded{{Scope: "endpoint", Endpoint: "a:1", Why: "x"}}, 5)
	if got, want := offText(off), "off the fast path: endpoint a:1, endpoint a:1, endpoint a:1, 2 more: x"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCheckCountsOne(t *testing.T) {
	good, err := os.ReadFile("testdata/explain.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, stdout, _ := call(t, "check", "--config", writeFile(t, "bad.yaml", string(good)+"adminn: {}\n"))
	if !strings.Contains(stdout, "bad.yaml: 1 problem\n") {
		t.Errorf("stdout:\n%s", stdout)
	}
	one := checkReport{Report: &check.Report{}, Config: &configReport{File: "a.yaml", Valid: true, Listeners: 1, Clusters: 1}}
	var out bytes.Buffer
	if err = one.print(&env{stdout: &out}, formatText); err != nil || !strings.Contains(out.String(), "a.yaml: 1 listener, 1 cluster\n") {
		t.Errorf("%v, stdout:\n%s", err, out.String())
	}
}

func TestVerdictOnAMachineThatCannotRunStays(t *testing.T) {
	r := checkReport{Report: &check.Report{Verdict: check.CannotRun}}
	if r.take(&configReport{}); r.Verdict != check.CannotRun {
		t.Errorf("got %q", r.Verdict)
	}
	r = checkReport{Report: &check.Report{Verdict: check.SlowPathOnly}}
	if r.take(&configReport{Valid: true}); r.Verdict != check.SlowPathOnly {
		t.Errorf("a good configuration: got %q", r.Verdict)
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFindingsAreShort(t *testing.T) {
	for problem, want := range map[string]finding{
		`static_resources.listeners[0].filter_chains[0].transport_socket: not supported: XLB does not terminate TLS; remove the field`: {
			"filter_chains.transport_socket", "XLB does not terminate TLS"},
		`a.routes[1].typed_per_filter_config["envoy.filters.http.csrf"]: not supported: type.googleapis.com/envoy.extensions.filters.http.csrf.v3.CsrfPolicy; XLB has the filters x`: {
			"routes.typed_per_filter_config", "XLB has no envoy.extensions.filters.http.csrf.v3.CsrfPolicy"},
		`node: required`:          {"node", "required"},
		`line 1: not YAML: a tab`: {"", "line 1: not YAML: a tab"},
	} {
		if got := findingOf(problem); got != want {
			t.Errorf("%s: got %q, want %q", problem, got, want)
		}
	}
}

func TestReasonsOfEnvoyAreFound(t *testing.T) {
	const start = "[2026-11-28 13:24:50.776][24584][critical][main] [source/server/config_validation/server.cc:76] error initializing configuration 'envoy.yaml': "
	for output, want := range map[string]string{
		"a line\n" + start + "Invalid path: a.pem\n\n": "Invalid path: a.pem",
		start + "Unable to parse JSON as proto (INVALID_ARGUMENT: could not find @type 'type.googleapis.com/a.v3.B'): {}\n": "this build of Envoy has no a.v3.B",
		"Segmentation fault": "it says not why",
	} {
		if got := reasonOfEnvoy(output); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := releaseOf("/tmp/v3/envoy  version: 9e55/1.40.0/Clean/RELEASE/BoringSSL"); got != "1.40.0" {
		t.Errorf("release %q", got)
	}
}

// stand is a program that refuses files that hold a word, and writes something then, and something else otherwise.
func stand(t *testing.T, word, refusing, accepting string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	script := "#!/bin/sh\nfor last; do :; done\n[ \"$last\" != --version ] || { echo 'envoy version: 0/1.2.3/'; exit; }\n" +
		"if grep -q " + word + " \"$last\"; then cat <<'E'\n" + refusing + "\nE\nexit 2; fi\ncat <<'E'\n" + accepting + "\nE\n"
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// checkout is a git tree of these files.
func checkout(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "a"}} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return dir
}

func TestPageCountsFilesAndReasons(t *testing.T) {
	dir := checkout(t, map[string]string{
		"a/envoy.yaml":  "static_resources: {}\n",
		"b/envoy.yaml":  "static_resources: {}\n# tls\n",
		"c/envoy.yml":   "dynamic_resources: {}\n# missing tls\n",
		"c/cds.yaml":    "resources: []\n",
		"c/config.yaml": "a: static_resources\n- b",
		"c/envoy.txt":   "static_resources: {}\n",
	})
	envoy := stand(t, "missing", "[critical][main] [server.cc:76] error initializing configuration 'envoy.yml': no a|b", "OK")
	xlb := stand(t, "tls", `{"config": {"file": "envoy.yaml", "problems": ["envoy.yaml: chains[0].tls: not supported: no TLS; remove it", "envoy.yaml: chains[1].tls: not supported: no TLS; remove it"]}}`,
		`{"config": {"file": "envoy.yaml", "problems": null}}`)
	out := filepath.Join(t.TempDir(), "page.md")
	if err := write(envoy, xlb, out, dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for _, want := range []string{
		"| a/envoy.yaml | accepts | accepts |",
		"| b/envoy.yaml | accepts | refuses: `chains.tls`: no TLS |",
		`| c/envoy.yml | refuses: no a\|b | refuses: ` + "`chains.tls`: no TLS |",
		"| `chains.tls` | no TLS | 1 | 1 |",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if want := "**Of 3 files Envoy accepts 2, and XLB 1 of these.** "; !strings.Contains(string(text), want) {
		t.Errorf("the page lacks %s", want)
	}
	if t.Failed() {
		t.Log(cmp.Diff("", string(text)))
	}
}

// A program that ends amid its work is no refusal.
func TestWhatDoesNotReportIsAnError(t *testing.T) {
	dir := checkout(t, map[string]string{"envoy.yaml": "static_resources: {}\n"})
	good := stand(t, "never", "", `{"config": {}}`)
	for _, xlb := range []string{stand(t, "static", "panic", ""), stand(t, "static", `{"results": []}`, ""), filepath.Join(dir, "none")} {
		if err := write(good, xlb, filepath.Join(dir, "page.md"), dir); err == nil {
			t.Errorf("%s: no error", xlb)
		}
	}
}

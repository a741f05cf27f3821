// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

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
		case roleReloads, roleEnds, roleEnded:
			os.Exit(playHangup(os.Args[1]))
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

// commands are all that a user sees, the root first.
func commands() []*cobra.Command {
	var below func(c *cobra.Command) []*cobra.Command
	below = func(c *cobra.Command) []*cobra.Command {
		list := []*cobra.Command{c}
		for _, sub := range c.Commands() {
			if !sub.Hidden {
				list = append(list, below(sub)...)
			}
		}
		return list
	}
	return below(rootCommand(&env{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}))
}

// words are a command's name as it is called.
func words(c *cobra.Command) []string { return strings.Fields(c.CommandPath())[1:] }

func TestHelp(t *testing.T) {
	for _, c := range commands() {
		name := strings.ReplaceAll(c.CommandPath(), " ", "-")
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := call(t, append(words(c), "--help")...)
			if code != exitOK || stderr != "" {
				t.Errorf("code %d, stderr %q", code, stderr)
			}
			compareOutput(t, name+".help", stdout)
		})
	}
}

func TestHelpVerbSaysWhatTheFlagSays(t *testing.T) {
	for _, c := range commands() {
		_, want, _ := call(t, append(words(c), "--help")...)
		code, got, stderr := call(t, append([]string{"help"}, words(c)...)...)
		if code != exitOK || stderr != "" || got != want {
			t.Errorf("help of %s: code %d, stderr %q and\n%s\nwant\n%s", c.CommandPath(), code, stderr, got, want)
		}
	}
}

func TestNoVerbGetsTheHelp(t *testing.T) {
	code, stdout, stderr := call(t)
	if code != exitOK || stderr != "" {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
	compareOutput(t, "xlb.help", stdout)
}

// silent are the verbs that print no data: what they do is seen elsewhere, or in their log.
var silent = []string{"xlb run", "xlb envoy", "xlb help", "xlb completion", "xlb heels run", "xlb heels drain", "xlb heels undrain", "xlb heels detach"}

func TestEveryVerbExplainsItself(t *testing.T) {
	for _, c := range commands()[1:] {
		if c.Short == "" || c.Long == "" || c.Example == "" {
			t.Errorf("%s: Short, Long and Example must say something", c.CommandPath())
		}
		if !strings.Contains(c.Example, "xlb") {
			t.Errorf("%s: the example calls nothing: %q", c.CommandPath(), c.Example)
		}
		if !c.Runnable() {
			continue
		}
		if has := c.Flags().Lookup("output") != nil; has == slices.Contains(silent, c.CommandPath()) {
			t.Errorf("%s: --output is there: %v; it is for verbs that print data, and for all of them", c.CommandPath(), has)
		}
	}
}

func TestEveryVerbRefusesWrongCommandLinesAlike(t *testing.T) {
	for _, c := range commands() {
		wrong := [][]string{{"--nosuch"}, {"--help=maybe"}}
		if c.Runnable() {
			wrong = append(wrong, []string{"a", "b", "c"})
		} else {
			wrong = append(wrong, []string{"nosuch"}, []string{"nosuch", "--help"})
		}
		if c.Flags().Lookup("output") != nil {
			wrong = append(wrong, []string{"--output", "xml"}, []string{"--output"})
		}
		for _, args := range wrong {
			args = append(words(c), args...)
			t.Run(strings.Join(args, " "), func(t *testing.T) {
				code, stdout, stderr := call(t, args...)
				if code != exitRefused || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasSuffix(stderr, "; see: "+c.CommandPath()+" --help\n") {
					t.Errorf("got code %d, stdout %q, stderr %q, want code 2 and one line that ends with where to look", code, stdout, stderr)
				}
			})
		}
	}
}

func TestWrongCommandLinesGetOneLineAndCodeTwo(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"balance"}, `unknown command "balance" of xlb; see: xlb --help`},
		{[]string{"chek"}, `unknown command "chek" of xlb; similar: check; see: xlb --help`},
		{[]string{"expl"}, `unknown command "expl" of xlb; similar: explain; see: xlb --help`},
		{[]string{"heels", "stauts"}, `unknown command "stauts" of xlb heels; similar: status; see: xlb heels --help`},
		{[]string{"help", "nosuch"}, `help: unknown command "nosuch"; see: xlb help --help`},
		{[]string{"help", "run", "nosuch"}, `help: unknown command "run nosuch"; see: xlb help --help`},
		{[]string{"--version", "extra"}, `unknown command "extra" of xlb; see: xlb --help`},
		{[]string{"completion"}, "completion: want a shell, one of bash, zsh, fish, as in: xlb completion bash; see: xlb completion --help"},
		{[]string{"completion", "tcsh"}, "completion: want a shell, one of bash, zsh, fish, as in: xlb completion bash; see: xlb completion --help"},
		{[]string{"docs", "man"}, "docs man: 0 arguments; want a directory, as in: xlb docs man /usr/local/share/man/man1; see: xlb docs man --help"},
		{[]string{"log-level", "loud"}, "log-level: want one of debug, info, warn, error, off, or nothing to see which is set; see: xlb log-level --help"},
		{[]string{"release"}, "release: want one network namespace, by a name, a file, --pod or --pid, as in: xlb release web; see: xlb release --help"},
		{[]string{"release", ""}, "release: want one network namespace, by a name, a file, --pod or --pid, as in: xlb release web; see: xlb release --help"},
		{[]string{"join", "web", "--pid", "1"}, "join: want one network namespace, by a name, a file, --pod or --pid, as in: xlb join web; see: xlb join --help"},
		{[]string{"join", "--pod", "shop/web", "--pid", "1"}, "join: want one network namespace, by a name, a file, --pod or --pid, as in: xlb join web; see: xlb join --help"},
		{[]string{"release", "--pod", ""}, `--pod "": want NAMESPACE/NAME as kubectl shows them, or the pod's UID, as in: --pod shop/web`},
		{[]string{"release", "--pod", "shop/"}, `--pod "shop/": want NAMESPACE/NAME as kubectl shows them, or the pod's UID, as in: --pod shop/web`},
		{[]string{"release", "--pod", "a/b/c"}, `--pod "a/b/c": want NAMESPACE/NAME as kubectl shows them, or the pod's UID, as in: --pod shop/web`},
		{[]string{"explain", "GET", "http://a/", "--pod", "shop/web", "--pid", "1"}, "explain: --pod and --pid: want one client; leave one of the two out"},
		{[]string{"explain", "GET", "http://a/", "--pod", "shop/web", "--config", "x.yaml"},
			"explain: --pod and --pid: not with --config: which clients are balanced a daemon knows, and no file; leave --config out to ask one"},
		{[]string{"explain", "GET", "http://a/", "--pid", "1", "--config", "x.yaml"},
			"explain: --pod and --pid: not with --config: which clients are balanced a daemon knows, and no file; leave --config out to ask one"},
		{[]string{"join", "--pid", "4194305"}, "--pid 4194305: no such process; give the number of one that runs, as ps shows it here"},
		{[]string{"join", "--pid", "-1"}, "--pid -1: no such process; give the number of one that runs, as ps shows it here"},
		{[]string{"release", "/proc/self/ns/mnt"}, `/proc/self/ns/mnt: not the file of a network namespace; give a name that "ip netns" shows, a file such as /proc/PID/ns/net, or --pid`},
		{[]string{"release", "nosuch"}, `network namespace "nosuch": there is no /run/netns/nosuch, and no /var/run/docker/netns/nosuch; give a name that "ip netns" shows, a file such as /proc/PID/ns/net, or --pid`},
		{[]string{"get", "pools", "--interval", "1s"}, "--interval: is for --watch; add that, or leave it out"},
		{[]string{"get", "pools", "--watch", "--interval", "1ms"}, "--interval 1ms: want 100ms or more"},
		{[]string{"check", "--pid", "4194305"}, "--pid 4194305: no such process; give the number of one that runs, as ps shows it here"},
		{[]string{"check", "--pid", "0"}, "--pid 0: no such process; give the number of one that runs, as ps shows it here"},
		{[]string{"check", "--pid", "1", "--views", "x"}, "if any flags in the group [pid views] are set none of the others can be; [pid views] were all set; see: xlb check --help"},
		{[]string{"check", "--pid", "1", "--config", "x"}, "if any flags in the group [pid config] are set none of the others can be; [config pid] were all set; see: xlb check --help"},
		{[]string{"version", "--nosuch"}, "unknown flag: --nosuch; see: xlb version --help"},
		{[]string{"version", "extra"}, `version: unexpected argument "extra"; it takes none; see: xlb version --help`},
		{[]string{"version", "--output", "xml"}, `invalid argument "xml" for "-o, --output" flag: must be text or json; see: xlb version --help`},
		{[]string{"run"}, "--config: required: give an Envoy v3 bootstrap, as in: xlb run --config envoy.yaml"},
		{[]string{"run", "--config", "x", "--when-down", "wait"}, `--when-down "wait": use pass, or fail to refuse connections that nobody serves`},
		{[]string{"run", "--config", "x", "--same-host", "udp"}, `--same-host "udp": use direct, or tcp where clients and servers do not trust each other`},
		{[]string{"run", "--config", "x", "--delegate", "auto", "--delegate-memory", "much"}, `--delegate-memory "much": use a size as 512MiB, or 0`},
		{[]string{"run", "--config", "x", "--delegate", "auto", "--delegate-memory", "1MiB"}, `--delegate-memory "1MiB": too little for Envoy; use at least 16MiB, or 0`},
		{[]string{"run", "--config", "x", "--delegate", "auto", "--delegate-cpus", "-1"}, "--delegate-cpus -1: use a number of processors from 0 to 8192"},
		{[]string{"run", "--config", "x", "--namespace-directory", "netns"}, "--namespace-directory netns: want an absolute path, as /run/netns"},
		{[]string{"run", "--config", "x", "--namespace-directory", "/dev/null"}, "--namespace-directory /dev/null: not a directory; give the one in which network namespaces have names, as /run/netns"},
		{[]string{"run", "--config", "x", "--namespaces", "own", "--namespace-directory", "/run/netns"},
			"--namespace-directory: names are those of other network namespaces than the daemon's, which --namespaces=own does not serve; leave one of the two out"},
		{[]string{"run", "--drain-time", "x"}, `invalid argument "x" for "--drain-time" flag: time: invalid duration "x"; see: xlb run --help`},
		{[]string{"get"}, "get: 0 resources named; name one of listeners, routes, clusters, endpoints, pools, connections, workloads, quotas, guards, delegate, config, notes, stats; see: xlb get --help"},
		{[]string{"explain", "GET"}, "explain: want a method and a URL, as in: xlb explain GET http://127.80.0.1:8080/cart; see: xlb explain --help"},
		{[]string{"get", "nosuch"}, `get: unknown resource "nosuch"; name one of listeners, routes, clusters, endpoints, pools, connections, workloads, quotas, guards, delegate, config, notes, stats; see: xlb get --help`},
		{[]string{"heels", "check"}, "--config: required: give a file of kind heels, as in: xlb heels check --config heels.yaml"},
		{[]string{"heels", "probe"}, "heels probe: 0 arguments; want an address with a port, as in: xlb heels probe 10.0.0.100:80; see: xlb heels probe --help"},
		{[]string{"heels", "drain"}, "heels drain: 0 arguments; want client or server, as in: xlb heels drain client; see: xlb heels drain --help"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			code, stdout, stderr := call(t, tt.args...)
			if want := "xlb: " + tt.want + "\n"; code != exitRefused || stdout != "" || stderr != want {
				t.Errorf("got code %d, stdout %q, stderr %q, want stderr %q", code, stdout, stderr, want)
			}
		})
	}
}

func TestDirectoriesOfNamesAreThoseGivenOrTheUsualOnes(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "later")
	for _, tt := range []struct {
		name        string
		given, want []string
	}{
		{"not given", nil, []string{"/run/netns", "/var/run/docker/netns"}},
		{"given, and not there yet", []string{missing, "/run"}, []string{missing, "/run"}},
		{"no directory", []string{""}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := (&runFlags{namespaceDirs: tt.given}).namespaceDirectories()
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
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
	for _, flag := range []string{"--version", "-v"} {
		if code, same, stderr := call(t, flag); code != exitOK || same != stdout || stderr != "" {
			t.Errorf("%s: got %d %q, stderr %q, want what \"xlb version\" prints", flag, code, same, stderr)
		}
	}
	var r versionReport
	decode(t, &r, "version", "--output", "json")
	if r.Version != "dev" || !strings.HasPrefix(r.Go, "go") || !strings.HasPrefix(r.Platform, "linux/") {
		t.Errorf("got %+v", r)
	}
}

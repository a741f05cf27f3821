// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// Nobody names an admin address, neither to the daemon nor to the commands that ask it.
func TestCommandsFindADaemonThatWasToldNoAdminAddress(t *testing.T) {
	harness.OnlyXLB(t, "the verbs are XLB's")
	place, binary := harness.Isolated(t), harness.Binary(t)
	_, addresses := origins(t, place, "server")
	file := filepath.Join(t.TempDir(), "xlb.yaml")
	if err := os.WriteFile(file, harness.YAML(t, harness.OneCluster(harness.Service(), addresses...)), 0o644); err != nil {
		t.Fatal(err)
	}
	run := []string{binary, "run", "--config", file, "--cgroup", place.Cgroup(), "--fast-path=off"}
	first := place.Run(t, run...)
	harness.Eventually(t, commandPatience, "the daemon is asked without its address", func() bool {
		_, code := place.Run(t, binary, "get", "listeners").Printed(t, commandPatience)
		return code == 0
	})
	for _, argv := range [][]string{{"get", "endpoints"}, {"log-level"}, {"explain", "GET", "http://e2e.test/"}} {
		if output, code := place.Run(t, append([]string{binary}, argv...)...).Printed(t, commandPatience); code != 0 {
			t.Errorf("%q: exit code %d:\n%s", argv, code, output)
		}
	}
	if report := place.Run(t, binary, "check").Output(t, commandPatience); !strings.Contains(report, "running daemon") {
		t.Errorf("check does not ask it:\n%s", report)
	}

	// Another one beside it has no admin API, and runs all the same.
	second := place.Run(t, run...)
	harness.Eventually(t, commandPatience, "the second daemon serves", func() bool {
		return strings.Contains(second.Stderr(), "intercepting connections")
	})
	if !strings.Contains(second.Stderr(), "there is no admin API") {
		t.Errorf("it does not say that it has no admin API:\n%s", second.Stderr())
	}
	for _, p := range []*harness.Process{second, first} {
		p.Signal(t, syscall.SIGTERM)
		if code := p.Wait(t, commandPatience); code != 0 {
			t.Errorf("exit code %d:\n%s", code, p.Stderr())
		}
	}
}

// The admin API has its default address only as long as no listener wants it: one of a later configuration is served there, also for other hosts.
func TestListenerOfALaterConfigurationTakesTheDefaultAdminAddress(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy has no default address")
	place, other := harness.TwoHosts(t)
	binary, file := harness.Binary(t), filepath.Join(t.TempDir(), "xlb.yaml")
	origin := place.Origin(t, "one").Address
	write := func(config harness.Config) {
		t.Helper()
		if err := errors.Join(os.WriteFile(file+".new", harness.YAML(t, config), 0o644), os.Rename(file+".new", file)); err != nil {
			t.Fatal(err)
		}
	}
	config := harness.OneCluster(harness.Service(), origin)
	write(config)
	daemon := place.Run(t, binary, "run", "--config", file, "--cgroup", place.Cgroup(), "--fast-path=off")
	harness.Eventually(t, commandPatience, "the admin API has its default address", func() bool {
		_, code := place.Run(t, binary, "get", "listeners").Printed(t, commandPatience)
		return code == 0
	})
	everywhere := netip.AddrPortFrom(netip.IPv4Unspecified(), netip.MustParseAddrPort(admin.DefaultAddress).Port())
	config.Add(harness.OneCluster(everywhere, origin))
	write(config)
	harness.Eventually(t, commandPatience, "the listener has its socket", func() bool {
		return strings.Contains(daemon.Stderr(), "address="+everywhere.String())
	})
	own := netip.AddrPortFrom(place.Address, everywhere.Port()).String()
	requireClean(t, runLoad(t, other, programs.LoadSpec{Address: own, Connections: 4, Requests: 20}))
	if log := daemon.Stderr(); !strings.Contains(log, "the admin API ends") || strings.Contains(log, "level=ERROR") {
		t.Errorf("the log does not say that the admin API ends, or has errors:\n%s", log)
	}
	daemon.Signal(t, syscall.SIGTERM)
	if code := daemon.Wait(t, commandPatience); code != 0 {
		t.Errorf("exit code %d:\n%s", code, daemon.Stderr())
	}
}

func TestLogBeginsWithVersionsAndItsLevelChanges(t *testing.T) {
	harness.OnlyXLB(t, "it is XLB's log")
	place, binary := harness.SameHost(t), harness.Binary(t)
	_, addresses := origins(t, place, "server")
	balancer := harness.Start(t, harness.Modes(t)[0], harness.OneCluster(harness.Service(), addresses...), place)
	var build struct{ Version, Go string }
	if err := json.Unmarshal([]byte(place.Run(t, binary, "version", "--output", "json").Output(t, commandPatience)), &build); err != nil {
		t.Fatal(err)
	}
	begins := regexp.MustCompile(`^time=\S+ level=INFO msg=starting version=` + regexp.QuoteMeta(build.Version) + `( revision=\S+)? go=` + regexp.QuoteMeta(build.Go) + ` kernel=\d+\.\d+\S*\n`)
	if log := balancer.Stderr(); !begins.MatchString(log) {
		t.Errorf("the log does not begin with the versions:\n%s", log)
	}
	if log := balancer.Stderr(); strings.Contains(log, "suppressed=0") {
		t.Errorf("the log counts what is not there:\n%s", log)
	}
	if n := balancer.Metric(t, "xlb_build_info", "version", build.Version, "goversion", build.Go); n != 1 {
		t.Errorf("xlb_build_info: got %v, want 1", n)
	}

	level := func(argv ...string) string {
		argv = append([]string{binary, "log-level", "--admin", balancer.Admin.String()}, argv...)
		return strings.TrimSpace(place.Run(t, argv...).Output(t, commandPatience))
	}
	if got := level("off"); got != "off" {
		t.Errorf("got %q, want off", got)
	}
	quiet := balancer.Stderr()
	moved := harness.Service()
	balancer.Reload(t, harness.OneCluster(moved, addresses...))
	harness.Eventually(t, commandPatience, "the other configuration is in force", func() bool {
		return strings.Contains(balancer.Get(t, "/listeners"), moved.String())
	})
	if log := balancer.Stderr(); log != quiet {
		t.Errorf("it is off, and logs:\n%s", strings.TrimPrefix(log, quiet))
	}
	if got := level("debug"); got != "debug" {
		t.Errorf("got %q, want debug", got)
	}
	if log := balancer.Stderr(); !strings.Contains(log, `msg="level of the log is changed" from=off to=debug`) {
		t.Errorf("the change is not in the log:\n%s", log)
	}
}

// What changes the level in Envoy changes it here, and what Envoy refuses is refused; beside that XLB refuses levels of single loggers.
func TestLevelOfTheLogIsChangedAsInEnvoy(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "compares both itself")
	place := harness.SameHost(t)
	_, addresses := origins(t, place, "server")
	config := harness.OneCluster(harness.Service(), addresses...)
	ours := harness.Start(t, harness.Modes(t)[0], config, place)
	beside := harness.StartEnvoy(t, harness.OneCluster(harness.Service(), addresses...), place)
	ask := func(b *harness.Balancer, method, target string) (status int, body string) {
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+b.Admin.String()+target, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := place.HTTPClient().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	for _, tt := range []struct {
		method, target string
		// level that both show behind it, of XLB's four; differs: XLB refuses what Envoy takes.
		level   string
		differs bool
	}{
		{"POST", "/logging?level=debug", "debug", false},
		{"POST", "/logging", "debug", false},
		{"POST", "/logging?level=nosuch", "", false},
		{"POST", "/logging?level=DEBUG", "", false},
		{"GET", "/logging?level=info", "", false},
		{"POST", "/logging?level=info&nosuch=debug", "", false},
		{"POST", "/logging?level=warning", "warning", false},
		{"POST", "/logging?level=error", "error", false},
		{"POST", "/logging?level=off", "off", false},
		{"POST", "/logging?level=info", "info", false},
		{"POST", "/logging?paths=admin:debug", "", true},
		{"POST", "/logging?admin=debug", "", true},
	} {
		got, text := ask(ours, tt.method, tt.target)
		want, theirs := ask(beside, tt.method, tt.target)
		if tt.differs {
			if got != http.StatusBadRequest || want != http.StatusOK {
				t.Errorf("%s %s: got %d, Envoy %d; want 400 and 200", tt.method, tt.target, got, want)
			}
			continue
		}
		if got != want {
			t.Errorf("%s %s: got %d %s, Envoy %d %s", tt.method, tt.target, got, text, want, theirs)
		}
		if tt.level != "" && (text != "active loggers:\n  xlb: "+tt.level+"\n" || !strings.Contains(theirs, "\n  admin: "+tt.level+"\n")) {
			t.Errorf("%s %s: got %q, Envoy %q, want the level %s in the same form", tt.method, tt.target, text, theirs, tt.level)
		}
	}
}

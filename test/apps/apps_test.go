// SPDX-License-Identifier: Apache-2.0

// Package apps starts the applications of examples/ as their users do, and looks whether they work: with XLB, with Envoy and with nobody
// between their services, and while an instance is killed. It needs root and what "scripts/install-deps examples" installs.
package apps

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	startPatience = 2 * time.Minute
	stopPatience  = 30 * time.Second
)

// application is one that runs.
type application struct {
	name, balancer string
	// pids by the process's name.
	pids map[string]int
}

// start runs the application's own script until the test ends.
func start(t *testing.T, name, balancer string) *application {
	t.Helper()
	a := &application{name: name, balancer: balancer, pids: map[string]int{}}
	up := exec.Command(a.script(t), "up", "--balancer", balancer)
	var problems bytes.Buffer
	up.Stderr = &problems
	output, err := up.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		kill := time.AfterFunc(stopPatience, func() { _ = up.Process.Kill() })
		defer kill.Stop()
		_ = up.Process.Signal(syscall.SIGTERM)
		if err := up.Wait(); err != nil {
			t.Errorf("%s ends with %v: %s", name, err, problems.String())
		}
	})
	hurry := time.AfterFunc(startPatience, func() { _ = up.Process.Kill() })
	defer hurry.Stop()
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if strings.Contains(lines.Text(), " is ready,") {
			return a
		}
		fields := strings.Fields(lines.Text())
		if pid, err := strconv.Atoi(fields[1]); err == nil {
			a.pids[fields[0]] = pid
		}
	}
	t.Fatalf("%s with %s does not come up: %s", name, balancer, problems.String())
	return nil
}

func (a *application) script(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "examples", a.name, "run"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs a verb of the script to its end.
func (a *application) run(t *testing.T, args ...string) string {
	t.Helper()
	output, err := exec.Command(a.script(t), append(args, "--balancer", a.balancer)...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v", a.name, strings.Join(args, " "), err)
	}
	t.Logf("%s, %s: %s", a.name, a.balancer, output)
	return string(output)
}

var counts = regexp.MustCompile(`(?m)^(\d+) pages in .*, (\d+) errors$`)

// load has pages read for some seconds and returns how many were complete, and how many were not.
func (a *application) load(t *testing.T, seconds int) (pages, errors int, output string) {
	t.Helper()
	output = a.run(t, "load", "--users", "6", "--duration", fmt.Sprintf("%ds", seconds))
	match := counts.FindStringSubmatch(output)
	if match == nil {
		t.Fatalf("the load does not say what it has seen: %s", output)
	}
	pages, _ = strconv.Atoi(match[1])
	errors, _ = strconv.Atoi(match[2])
	return pages, errors, output
}

func (a *application) requireComplete(t *testing.T, seconds int) string {
	t.Helper()
	pages, errors, output := a.load(t, seconds)
	if pages < 5 || errors != 0 {
		t.Errorf("%d pages, %d errors; want 5 or more, all complete", pages, errors)
	}
	return output
}

// kill ends an instance without a word, in the midst of a load. Requests that it has begun may be lost where they must not be sent again.
func (a *application) kill(t *testing.T, instance string, mayLose int) {
	t.Helper()
	pid := a.pids[instance]
	if pid == 0 {
		t.Fatalf("no %s among %v", instance, a.pids)
	}
	timer := time.AfterFunc(2*time.Second, func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	defer timer.Stop()
	pages, errors, _ := a.load(t, 5)
	if a.balancer == "envoy" {
		// It does not notice that an instance is gone, and goes on trying.
		mayLose += 20
	}
	if pages < 5 || errors > mayLose {
		t.Errorf("while %s is killed: %d pages, %d errors; want 5 or more, and at most %d", instance, pages, errors, mayLose)
	}
	a.requireComplete(t, 2)
}

// requireFast fails unless nearly all requests were moved by the kernel.
func (a *application) requireFast(t *testing.T, metrics string) {
	t.Helper()
	response, err := http.Get(metrics)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	moved := map[string]float64{}
	for _, match := range regexp.MustCompile(`(?m)^xlb_requests_total\{.*path="(fast|slow)".*\} (\S+)$`).FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		moved[match[1]] += n
	}
	t.Logf("%s: requests %v", a.name, moved)
	if moved["slow"] > moved["fast"]/20 || moved["fast"] == 0 {
		t.Errorf("requests %v: want at least 95 of 100 to be fast", moved)
	}
}

var balancers = []string{"none", "envoy", "xlb"}

func TestBookstorePagesAreComplete(t *testing.T) {
	for _, balancer := range balancers {
		t.Run(balancer, func(t *testing.T) {
			a := start(t, "bookstore", balancer)
			if page := a.run(t, "ask", "/page/7"); !strings.Contains(page, "<title>Book 7</title>") {
				t.Errorf("page of book 7: %s", page)
			}
			output := a.requireComplete(t, 3)
			if regexp.MustCompile(`v\d: 0\b`).MatchString(output) {
				t.Error("a version of the reviews has never been seen")
			}
			if balancer == "xlb" {
				a.requireFast(t, "http://127.0.0.1:19901/metrics")
			}
			if balancer == "none" {
				return
			}
			a.kill(t, "reviews-2", 0)
			a.kill(t, "details-1", 0)
			a.kill(t, "page-1", 0)
		})
	}
}

func TestLedgerAddsUp(t *testing.T) {
	for _, balancer := range balancers {
		t.Run(balancer, func(t *testing.T) {
			a := start(t, "bank", balancer)
			if output := a.requireComplete(t, 3); !strings.Contains(output, "the ledger adds up") {
				t.Error("nobody has added up the ledger")
			}
			if balancer == "xlb" {
				a.requireFast(t, "http://127.0.0.1:19902/metrics")
			}
			if balancer == "none" {
				return
			}
			a.kill(t, "balancereader-1", 0)
			a.kill(t, "ledgerwriter-1", 6)
			a.kill(t, "frontend-1", 6)
		})
	}
}

func TestMain(m *testing.M) {
	// The scripts run bin/xlb, as users do.
	if _, err := os.Stat("../../bin/xlb"); err != nil {
		fmt.Fprintln(os.Stderr, "apps: no bin/xlb: \"make test-examples\" builds it and runs this")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
)

// processCheck is what "xlb check --pid" says in JSON.
type processCheck struct {
	Balanced bool
	Cgroup   string
	Results  []struct{ Name, Status, Remedy string }
}

// lacks names the first result that is not as it should be; empty: there is none.
func (c *processCheck) lacks() string {
	for _, r := range c.Results {
		if r.Status != "ok" {
			return r.Name
		}
	}
	return ""
}

// checked asks whether a process is balanced, and holds that answer, remedy and exit code agree.
func checked(t *testing.T, place *harness.Place, pid int) *processCheck {
	t.Helper()
	output, code := place.Run(t, harness.Binary(t), "check", "--pid", strconv.Itoa(pid), "--output", "json").Printed(t, commandPatience)
	c := &processCheck{}
	if err := json.Unmarshal([]byte(output), c); err != nil {
		t.Fatalf("%v, exit code %d:\n%s", err, code, output)
	}
	lacks := c.lacks()
	if c.Balanced != (lacks == "") || c.Balanced != (code == 0) || !c.Balanced && code != 1 {
		t.Errorf("exit code %d and %+v do not agree", code, c)
	}
	for _, r := range c.Results {
		if r.Status != "ok" && r.Remedy == "" {
			t.Errorf("%s: no remedy", r.Name)
		}
	}
	return c
}

// sleeper is a process that does nothing, in the place's cgroup and network namespace.
func sleeper(t *testing.T, place *harness.Place) int {
	t.Helper()
	return place.Run(t, "sleep", "infinity").PID()
}

func TestWhetherAProcessIsBalancedIsSaidWithTheReason(t *testing.T) {
	harness.OnlyXLB(t, "the verb is XLB's")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, stranger, elsewhere := harness.SameHost(t), harness.SameHost(t), harness.Isolated(t)
		_, addresses := origins(t, place, "server")
		inside := sleeper(t, place)
		if got := checked(t, place, inside); got.Balanced || got.lacks() != "programs" || got.Cgroup != place.Cgroup() {
			t.Errorf("before there is a daemon: %+v", got)
		}
		balancer := harness.Start(t, mode, harness.OneCluster(harness.Service(), addresses...), place)
		if got := checked(t, place, inside); !got.Balanced {
			t.Errorf("in the daemon's cgroup: %+v", got)
		}
		below := filepath.Join(place.Cgroup(), "below")
		if err := os.Mkdir(below, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(below) })
		child := place.Run(t, "sleep", "infinity")
		move(t, child.PID(), below)
		if got := checked(t, place, child.PID()); !got.Balanced || got.Cgroup != below {
			t.Errorf("in a cgroup below the daemon's: %+v", got)
		}
		child.Kill(t)
		if got := checked(t, place, sleeper(t, stranger)); got.lacks() != "programs" {
			t.Errorf("in another cgroup: %+v", got)
		}
		far := sleeper(t, elsewhere)
		move(t, far, place.Cgroup())
		if got := checked(t, place, far); got.lacks() != "network namespace" {
			t.Errorf("in another network namespace: %+v", got)
		}
		move(t, far, elsewhere.Cgroup())

		balancer.Signal(t, syscall.SIGSTOP)
		harness.Eventually(t, commandPatience, "the daemon is seen to be silent", func() bool { return checked(t, place, inside).lacks() == "daemon" })
		balancer.Signal(t, syscall.SIGCONT)
		harness.Eventually(t, commandPatience, "the daemon is seen to live again", func() bool { return checked(t, place, inside).Balanced })
	})
}

// move puts a process into a cgroup.
func move(t *testing.T, pid int, cgroup string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		t.Fatal(err)
	}
}

// The daemon's own connections are left alone, whatever cgroup it is in.
func TestDaemonIsNotBalancedByItself(t *testing.T) {
	harness.OnlyXLB(t, "the verb is XLB's")
	place := harness.SameHost(t)
	_, addresses := origins(t, place, "server")
	balancer := harness.Start(t, harness.Modes(t)[0], harness.OneCluster(harness.Service(), addresses...), place)
	move(t, balancer.PID(), place.Cgroup())
	if got := checked(t, place, balancer.PID()); got.lacks() != "process" {
		t.Errorf("the daemon: %+v", got)
	}
}

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// A delegate is an Envoy beside the daemon, with the same configuration.
func TestADelegateServesTheConfigurationAtItsSockets(t *testing.T) {
	harness.OnlyXLB(t, "Envoy has no delegate")
	place := harness.SameHost(t)
	_, addresses := origins(t, place, "one", "two")
	config := harness.OneCluster(harness.Service(), addresses[:1]...)
	config.Arguments = []string{"--delegate", harness.EnvoyBinary(t), "--delegate-memory", "256MiB", "--delegate-cpus", "1"}
	b := harness.Start(t, harness.Modes(t)[0], config, place)

	first := awaitDelegate(t, b, "ready", func(d *admin.Delegate) bool { return d.State == "ready" })
	if len(first.Listeners) != 1 || first.MemoryLimit != 256<<20 || first.CPUs != 1 || first.MemoryBytes == 0 {
		t.Errorf("delegate: %+v", first)
	}
	requireCapabilities(t, b)
	if got := askSocket(t, first.Listeners[0].Socket); !strings.Contains(got, "200 OK") || !isOf(got, "one") {
		t.Errorf("the delegate's answer: %q", got)
	}

	// Another configuration is another process's.
	config.Clusters[0].Endpoints = addresses[1:]
	b.Reload(t, config)
	second := awaitDelegate(t, b, "another process", func(d *admin.Delegate) bool { return d.State == "ready" && d.PID != first.PID })
	if got := askSocket(t, second.Listeners[0].Socket); !isOf(got, "two") {
		t.Errorf("the answer of the delegate with another configuration: %q", got)
	}
	awaitNoProcess(t, first.PID)

	// One that ends is followed by another.
	if err := syscall.Kill(second.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	third := awaitDelegate(t, b, "a process behind one that was killed", func(d *admin.Delegate) bool { return d.State == "ready" && d.PID != second.PID })
	if third.Ends != 1 {
		t.Errorf("%d ends, want 1", third.Ends)
	}
	if got := askSocket(t, third.Listeners[0].Socket); !isOf(got, "two") {
		t.Errorf("the answer of a delegate that was started again: %q", got)
	}

	// It ends with the daemon, and nothing is left.
	b.Terminate(t)
	if code := b.Wait(t, await.Patience); code != 0 {
		t.Errorf("the daemon ended with code %d", code)
	}
	awaitNoProcess(t, third.PID)
	directory := filepath.Dir(filepath.Dir(filepath.Dir(third.Listeners[0].Socket)))
	if _, err := os.Stat(directory); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v, want it removed", directory, err)
	}
	checkNoDelegateCgroup(t, filepath.Base(directory))
}

func TestADelegateEndsWithADaemonThatIsKilled(t *testing.T) {
	harness.OnlyXLB(t, "Envoy has no delegate")
	place := harness.SameHost(t)
	_, addresses := origins(t, place, "one")
	config := harness.OneCluster(harness.Service(), addresses...)
	config.Arguments = []string{"--delegate", harness.EnvoyBinary(t)}
	b := harness.Start(t, harness.Modes(t)[0], config, place)
	d := awaitDelegate(t, b, "ready", func(d *admin.Delegate) bool { return d.State == "ready" })
	b.Kill(t)
	awaitNoProcess(t, d.PID)

	// The next daemon removes what is left.
	b = harness.Start(t, harness.Modes(t)[0], config, place)
	awaitDelegate(t, b, "ready", func(d *admin.Delegate) bool { return d.State == "ready" })
	directory := filepath.Dir(filepath.Dir(filepath.Dir(d.Listeners[0].Socket)))
	if _, err := os.Stat(directory); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v, want it removed", directory, err)
	}
	checkNoDelegateCgroup(t, filepath.Base(directory))
}

func TestWithoutEnvoyThereIsNoDelegate(t *testing.T) {
	harness.OnlyXLB(t, "Envoy has no delegate")
	place := harness.SameHost(t)
	_, addresses := origins(t, place, "one")
	config := harness.OneCluster(harness.Service(), addresses...)
	t.Setenv("PATH", pathWithout(t, "envoy"))
	config.Arguments = []string{"--delegate", "auto"}
	b := harness.Start(t, harness.Modes(t)[0], config, place)
	if list := delegates(t, b); len(list) != 0 {
		t.Errorf("delegate: %+v", list)
	}
	if log := b.Stderr(); !strings.Contains(log, "goes without a delegate") || !strings.Contains(log, "install Envoy") {
		t.Errorf("the log does not say why: %s", log)
	}
}

// delegates are the rows of /xlb/delegate.
func delegates(t *testing.T, b *harness.Balancer) (list []admin.Delegate) {
	t.Helper()
	if err := json.Unmarshal([]byte(b.Get(t, "/xlb/delegate")), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func awaitDelegate(t *testing.T, b *harness.Balancer, what string, is func(d *admin.Delegate) bool) (found admin.Delegate) {
	t.Helper()
	harness.Eventually(t, await.Patience, "the delegate: "+what, func() bool {
		list := delegates(t, b)
		if len(list) == 1 {
			found = list[0]
		}
		return len(list) == 1 && is(&found)
	})
	return found
}

func awaitNoProcess(t *testing.T, pid int) {
	t.Helper()
	harness.Eventually(t, await.Patience, "the delegate's process ends", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		// One that has ended stays until its parent looks, which may be the init process of a namespace that does not.
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) || bytes.Contains(text, []byte(") Z "))
	})
}

// askSocket makes one request at a Unix socket, and returns the answer.
func askSocket(t *testing.T, path string) string {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// checkNoDelegateCgroup fails where a hierarchy has a cgroup of that name.
func checkNoDelegateCgroup(t *testing.T, name string) {
	t.Helper()
	for _, pattern := range []string{"/sys/fs/cgroup/" + name, "/sys/fs/cgroup/*/" + name} {
		if left, err := filepath.Glob(pattern); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}

// isOf reports whether a server of that identity has answered.
func isOf(answer, identity string) bool {
	return strings.Contains(strings.ToLower(answer), strings.ToLower(programs.Identity)+": "+identity+"\r\n")
}

// pathWithout is PATH without the directories in which a program is.
func pathWithout(t *testing.T, name string) string {
	t.Helper()
	var list []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			list = append(list, dir)
		}
	}
	return strings.Join(list, string(filepath.ListSeparator))
}

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// commandPatience bounds a command that ends by itself.
const commandPatience = await.Patience

// readable makes a directory that any user can read, with one file.
func readable(t *testing.T, name string, content []byte) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "readable-")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	err = errors.Join(os.Chmod(dir, 0o755), os.WriteFile(path, content, 0o755))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// refusal is a start that must be refused, and how.
type refusal struct {
	name string
	// config of the file; empty leaves the file away.
	config string
	// admin and cgroup replace the good ones.
	admin, cgroup string
	// fast is for a kernel that cannot run the fast path, and asks for it.
	fast bool
	// asNobody takes all privileges away.
	asNobody bool
	// without takes one capability away.
	without string
	// says lists what the message must contain.
	says []string
	// mistakes is their number where it is more than one: a line for each.
	mistakes int
}

func TestRefusedStartSaysWhyAndExitsWith2(t *testing.T) {
	harness.OnlyXLB(t, "these are XLB's messages")
	binary := harness.Binary(t)
	service := harness.Service()
	good := string(harness.YAML(t, harness.OneCluster(service, harness.Service())))
	occupied, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer occupied.Close()
	edited := func(old, replacement string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the configuration has no %q to edit:\n%s", old, good)
		}
		return strings.Replace(good, old, replacement, 1)
	}

	tests := []refusal{
		{name: "file is missing", says: []string{"missing.yaml"}},
		{name: "not YAML", config: "static_resources: [", says: []string{"xlb.yaml"}},
		{name: "empty file", config: "\n", says: []string{"static_resources"}},
		{name: "unknown field", config: edited("lb_policy:", "lb_polcy:"), says: []string{"lb_polcy"}},
		{name: "wrong type of a value", config: edited("connect_timeout: 1s", "connect_timeout: soon"), says: []string{"connect_timeout"}},
		{name: "cluster that does not exist", config: edited("cluster: origins", "cluster: elsewhere"), says: []string{"elsewhere"}},
		{name: "policy that does not fit the cluster", config: edited("lb_policy: ROUND_ROBIN", "lb_policy: CLUSTER_PROVIDED"), says: []string{"static_resources.clusters[0].lb_policy", "ORIGINAL_DST"}},
		{name: "filter that is not supported", config: edited("envoy.extensions.filters.http.router.v3.Router", "envoy.extensions.filters.http.buffer.v3.Buffer"), says: []string{"http_filters"}},
		{name: "several mistakes are told together", config: strings.Replace(edited("lb_policy: ROUND_ROBIN", "lb_policy: CLUSTER_PROVIDED"), "cluster: origins", "cluster: elsewhere", 1), says: []string{"lb_policy", "elsewhere"}, mistakes: 2},
		{name: "admin port in use", config: good, admin: occupied.Addr().String(), says: []string{occupied.Addr().String(), "in use"}},
		{name: "cgroup does not exist", config: good, cgroup: "/sys/fs/cgroup/no/such/cgroup", says: []string{"/sys/fs/cgroup/no/such/cgroup"}},
		{name: "directory is not cgroup v2", config: good, cgroup: os.TempDir(), says: []string{os.TempDir(), "cgroup"}},
		{name: "no privileges", config: good, asNobody: true, says: []string{"root (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON)", "without CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON", "run as root"}},
		// The kernel would let it start, and no endpoint could be reached.
		{name: "no CAP_NET_ADMIN", config: good, without: "net_admin", says: []string{"root (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON)", "without CAP_NET_ADMIN;", "run as root"}},
	}
	if !harness.FastPath(t) {
		tests = append(tests, refusal{
			name: "kernel without the fast path", config: good, fast: true, says: []string{"--fast-path=off", "xlb check"},
		})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			place := harness.SameHost(t)
			config := filepath.Join(t.TempDir(), "missing.yaml")
			if tt.config != "" {
				config = readable(t, "xlb.yaml", []byte(tt.config))
			}
			admin, cgroup := fmt.Sprintf("127.0.0.1:%d", place.FreePort(t)), place.Cgroup()
			if tt.admin != "" {
				admin = tt.admin
			}
			if tt.cgroup != "" {
				cgroup = tt.cgroup
			}
			argv := []string{binary, "run", "--config", config, "--cgroup", cgroup, "--admin", admin}
			if tt.fast {
				argv = append(argv, "--fast-path=on")
			}
			if tt.without != "" {
				argv = append([]string{"setpriv", "--bounding-set=-" + tt.without, "--inh-caps=-" + tt.without}, argv...)
			}
			var process *harness.Process
			if tt.asNobody {
				process = runAsNobody(t, place, argv)
			} else {
				process = place.Run(t, argv...)
			}
			if code := process.Wait(t, commandPatience); code != 2 {
				t.Errorf("exit code: got %d, want 2", code)
			}
			requireMessage(t, process.Stderr(), max(tt.mistakes, 1), tt.says)
			for _, what := range place.Attached(t) {
				t.Errorf("%s is attached", what)
			}
		})
	}
}

// requireMessage fails unless a message has at most that many lines, says
// everything, and says it to a person.
func requireMessage(t *testing.T, message string, most int, says []string) {
	t.Helper()
	if lines := strings.Count(message, "\n"); lines == 0 || lines > most || !strings.HasSuffix(message, "\n") {
		t.Errorf("message: got %d lines, want 1 to %d:\n%s", lines, most, message)
	}
	for _, s := range says {
		if !strings.Contains(message, s) {
			t.Errorf("message: %q is not in it: %s", s, message)
		}
	}
	for _, noise := range []string{"panic", "goroutine", "0x"} {
		if strings.Contains(message, noise) {
			t.Errorf("message: not for people (%q): %s", noise, message)
		}
	}
}

// runAsNobody runs a command without any capability.
func runAsNobody(t *testing.T, place *harness.Place, argv []string) *harness.Process {
	t.Helper()
	content, err := os.ReadFile(argv[0])
	if err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	// The scratch directory is open to everybody, the repository may not be.
	cmd := exec.Command(readable(t, "xlb", content), argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return place.RunCommand(t, cmd)
}

func TestWrongUsageSaysWhyAndExitsWith2(t *testing.T) {
	harness.OnlyXLB(t, "these are XLB's messages")
	tests := []struct {
		name string
		argv []string
		says string
	}{
		{"unknown verb", []string{"balance"}, "balance"},
		{"unknown flag", []string{"run", "--cofnig", "x"}, "--cofnig"},
		{"run without a file", []string{"run"}, "xlb run --config envoy.yaml"},
		{"value that a flag does not have", []string{"run", "--config", "x", "--fast-path=perhaps"}, "perhaps"},
		{"unknown object", []string{"get", "sockets"}, "sockets"},
		{"nobody answers at the admin address", []string{"get", "routes", "--admin", "127.80.255.255:1"}, "127.80.255.255:1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			process := harness.SameHost(t).Run(t, append([]string{harness.Binary(t)}, tt.argv...)...)
			if code := process.Wait(t, commandPatience); code != 2 {
				t.Errorf("exit code: got %d, want 2", code)
			}
			requireMessage(t, process.Stderr(), 1, []string{tt.says})
		})
	}
}

func TestGetPrintsLiveObjectsAsJSON(t *testing.T) {
	harness.OnlyXLB(t, "the verbs are XLB's")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		_, addresses := origins(t, place, "server")
		balancer := harness.Start(t, mode, harness.OneCluster(service, addresses...), place)
		crowd := place.Program(t, programs.CrowdProgram, programs.CrowdSpec{Address: service.String(), Connections: 3})
		crowd.Next(t, &programs.CrowdReport{})
		tests := []struct{ object, says string }{
			{"listeners", service.Addr().String()},
			{"routes", "origins"},
			{"clusters", "origins"},
			{"endpoints", fmt.Sprint(addresses[0].Port())},
			{"pools", fmt.Sprint(addresses[0].Port())},
			{"connections", service.Addr().String()},
			{"stats", `"requests": {`},
		}
		for _, tt := range tests {
			t.Run(tt.object, func(t *testing.T) {
				output := place.Run(t, harness.Binary(t), "get", tt.object,
					"--admin", balancer.Admin.String(), "--output", "json").Output(t, commandPatience)
				if !json.Valid([]byte(output)) {
					t.Fatalf("not JSON:\n%s", output)
				}
				if !mode.Fast && (tt.object == "pools" || tt.object == "connections") {
					// Without the fast path there need be none.
					return
				}
				if !bytes.Contains([]byte(output), []byte(tt.says)) {
					t.Errorf("%q is not in it:\n%s", tt.says, output)
				}
			})
		}
	})
}

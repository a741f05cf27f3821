// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/violation"
)

// Mode is a way to run the balancer.
type Mode struct {
	// Name for a sub-test.
	Name string
	// Fast tells that the kernel is expected to serve.
	Fast bool
	// Auto leaves it to XLB how much of it the kernel serves, by --fast-path=auto.
	Auto bool
	// Lacks is a tracepoint that XLB does not find, as on a kernel that is older.
	Lacks string
	// Waits has senders wait for the lock of a socket that somebody holds, as the test does.
	Waits bool
}

// fastPathFlag is how XLB is told.
func (m *Mode) fastPathFlag() string {
	switch {
	case m.Auto:
		return "--fast-path=auto"
	case m.Fast:
		return "--fast-path=on"
	}
	return "--fast-path=off"
}

// Envoy tells that a real Envoy takes the place of XLB.
func Envoy() bool { return os.Getenv("XLB_E2E_PEER") == "envoy" }

// Modes lists the ways in which every request must be answered alike.
func Modes(t testing.TB) []Mode {
	t.Helper()
	off := Mode{Name: "fast-path=off"}
	switch {
	case Envoy():
		return []Mode{{Name: "peer=envoy"}}
	case !FastPath(t):
		return []Mode{off}
	}
	return []Mode{{Name: "fast-path=on", Fast: true}, off}
}

// fastPath is what the first that asked has found: tests ask a hundred times.
var fastPath struct {
	sync.Mutex
	known, fast bool
}

// FastPath tells whether this kernel can run the fast path, by what "xlb check" says. Kernels that are known to must.
func FastPath(t testing.TB) bool {
	t.Helper()
	fastPath.Lock()
	defer fastPath.Unlock()
	if !fastPath.known {
		fastPath.fast = checkFastPath(t)
		fastPath.known = true
	}
	return fastPath.fast
}

func checkFastPath(t testing.TB) bool {
	t.Helper()
	output, err := exec.Command(Binary(t), "check", "--output", "json").Output()
	var report struct{ Verdict, Kernel string }
	if jsonErr := json.Unmarshal(output, &report); jsonErr != nil {
		t.Fatalf("xlb check: %v, %v: %s", err, jsonErr, output)
	}
	fast := report.Verdict == "fast path"
	var major, minor int
	if _, err := fmt.Sscanf(report.Kernel, "%d.%d", &major, &minor); err != nil {
		t.Fatalf("kernel release %q: %v", report.Kernel, err)
	}
	if known := major > 6 || major == 6 && minor >= 12; known && !fast {
		t.Fatalf("xlb check on %s: got %q, want \"fast path\"", report.Kernel, report.Verdict)
	}
	return fast
}

// ForModes runs a test in every mode. With -short it takes the first alone.
func ForModes(t *testing.T, test func(t *testing.T, mode Mode)) {
	t.Helper()
	for i, mode := range Modes(t) {
		if i > 0 && testing.Short() {
			return
		}
		t.Run(mode.Name, func(t *testing.T) { test(t, mode) })
	}
}

// OnlyXLB skips what has no counterpart in Envoy.
func OnlyXLB(t testing.TB, reason string) {
	t.Helper()
	if Envoy() {
		t.Skip("the peer is Envoy: " + reason)
	}
}

// Service addresses lie in 127.80.0.0/14. Each test process has a block of its own there: two balancers that listen at one address would share
// its connections.
const (
	serviceBlock  = 1 << 10
	serviceBlocks = 1<<18/serviceBlock - 1
)

var (
	services     atomic.Uint32
	servicesFrom = sync.OnceValue(func() uint32 {
		// The first address of a block is no service's.
		block, err := claim(serviceBlocks, func(block uint32) netip.Addr { return serviceAt(block * serviceBlock).Addr() })
		if err != nil {
			panic(fmt.Sprintf("claim service addresses: %v", err))
		}
		return block * serviceBlock
	})
)

// Service returns a service address that no test has used.
func Service() netip.AddrPort { return serviceAt(servicesFrom() + services.Add(1)) }

func serviceAt(n uint32) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 80 + byte(n>>16), byte(n >> 8), byte(n)}), 8080)
}

// Balancer is a running XLB, or the peer in its place.
type Balancer struct {
	*Process
	// Admin is the address of the admin API.
	Admin netip.AddrPort
	// Mode that it was started in; the zero Mode for an Envoy beside XLB.
	Mode Mode

	place *Place
	dir   string
	http  *http.Client
	// envoy tells that it is an Envoy, with the listeners of the configuration that it was started with.
	envoy     bool
	listeners []Listener
}

// readyPatience bounds the time from start to readiness.
const readyPatience = 20 * time.Second

// Start runs the balancer in the first place, which is also what it balances,
// and waits until it is ready.
func Start(t testing.TB, mode Mode, config Config, places ...*Place) *Balancer {
	t.Helper()
	b := newBalancer(t, places[0])
	b.Mode = mode
	if Envoy() {
		b.startEnvoy(t, config)
	} else {
		b.startXLB(t, mode, config, places)
	}
	b.awaitReady(t)
	t.Cleanup(func() { b.checkSequences(t) })
	return b
}

// checkSequences fails if a connection to an endpoint has ever sent other bytes than were counted: whatever
// clients do, that must not be.
func (b *Balancer) checkSequences(t testing.TB) {
	t.Helper()
	if b.envoy || !b.Alive() {
		return
	}
	// It may be about to end.
	text, err := b.get("/metrics")
	if err != nil {
		return
	}
	n, err := sumSamples(text, "xlb_guard_total", []string{`what="sequence"`})
	if err != nil {
		t.Error(err)
	}
	if n > 0 {
		violation.Errorf(t, "xlb_guard_total{what=\"sequence\"}: got %.0f, want 0", n)
	}
}

// StartEnvoy runs a real Envoy with the same configuration, beside XLB.
func StartEnvoy(t testing.TB, config Config, place *Place) *Balancer {
	t.Helper()
	b := newBalancer(t, place)
	b.startEnvoy(t, config)
	b.awaitReady(t)
	return b
}

// IsEnvoy tells that it is an Envoy in the place of XLB.
func (b *Balancer) IsEnvoy() bool { return b.envoy }

func newBalancer(t testing.TB, place *Place) *Balancer {
	t.Helper()
	return &Balancer{
		Admin: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), place.FreePort(t)),
		place: place, dir: t.TempDir(), http: place.HTTPClient(),
	}
}

func (b *Balancer) awaitReady(t testing.TB) {
	t.Helper()
	Eventually(t, readyPatience, "/ready answers 200", func() bool {
		if !b.Alive() {
			t.Fatalf("%s ended with code %d:\n%s", b.name, b.cmd.ProcessState.ExitCode(), b.Stderr())
		}
		_, err := b.get("/ready")
		return err == nil
	})
}

// Binary is the path of the XLB under test.
func Binary(t testing.TB) string {
	t.Helper()
	path := os.Getenv("XLB_BIN")
	if path == "" {
		path = filepath.Join(root(t), "bin", "xlb")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the binary to test: %v; build it with: make build", err)
	}
	return path
}

func (b *Balancer) startXLB(t testing.TB, mode Mode, config Config, places []*Place) {
	t.Helper()
	pinsBefore := pins(t)
	b.write(t, config)
	argv := []string{Binary(t), "run", "--config", b.File(), "--admin", b.Admin.String(), mode.fastPathFlag()}
	for _, p := range places {
		argv = append(argv, "--cgroup", p.Cgroup())
	}
	argv = append(argv, config.Arguments...)
	argv = append(argv, b.writeViews(t, config.Views)...)
	if config.Files > 0 {
		argv = append([]string{"prlimit", fmt.Sprintf("--nofile=%d:%[1]d", config.Files), "--"}, argv...)
	}
	if mode.Waits {
		argv = append([]string{"env", "XLB_TEST_WAIT_FOR_LOCKS=1"}, argv...)
	}
	if mode.Lacks != "" {
		argv = OnOlderKernel(t, mode.Lacks, argv)
	}
	var objects []kernelObject
	// Clients may still have their sockets: these hold the programs that they found, and the map they are in.
	places[0].cgroup.atEnd(func(t testing.TB) { checkNothingLeft(t, objects, pinsBefore) })
	b.Process = b.place.Run(t, argv...)
	t.Cleanup(func() { objects = kernelObjects(t, b.PID()) })
}

// File is the path of XLB's bootstrap.
func (b *Balancer) File() string { return filepath.Join(b.dir, "xlb.yaml") }

func (b *Balancer) write(t testing.TB, config Config) {
	t.Helper()
	b.replace(t, b.File(), toYAML(t, config.bootstrap(b.Admin, false)))
}

// replace puts content at path in one step, as editors and tools do.
func (b *Balancer) replace(t testing.TB, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", content, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// Replace changes the file and leaves it to the balancer to notice.
func (b *Balancer) Replace(t testing.TB, config Config) {
	t.Helper()
	if b.envoy {
		b.writeEnvoy(t, config)
		return
	}
	b.write(t, config)
}

// Reload changes the file and tells the balancer; it does not wait.
func (b *Balancer) Reload(t testing.TB, config Config) {
	t.Helper()
	b.Replace(t, config)
	if !b.envoy {
		b.Signal(t, syscall.SIGHUP)
	}
}

// ReloadBroken offers a configuration that must be refused, and waits until
// the balancer has said so.
func (b *Balancer) ReloadBroken(t testing.TB, config Config) {
	t.Helper()
	said := len(b.Stderr())
	// A misspelt field: ignoring it would change where requests go.
	broken := config.bootstrap(b.Admin, false)
	listeners := broken["static_resources"].(object)["listeners"].([]any)
	listeners[0].(object)["adress"] = listeners[0].(object)["address"]
	if b.envoy {
		b.replace(t, b.envoyFile("lds"), envoyResources(t, listenerType, listeners))
	} else {
		b.replace(t, b.File(), toYAML(t, broken))
		b.Signal(t, syscall.SIGHUP)
	}
	Eventually(t, 10*time.Second, "a message that names the field \"adress\"", func() bool {
		return strings.Contains(b.Stderr()[said:], "adress")
	})
}

// get returns the body of an answer of 200 from the admin API.
func (b *Balancer) get(path string) (string, error) {
	response, err := b.http.Get("http://" + b.Admin.String() + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("get %s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("get %s: %s: %s", path, response.Status, body)
	}
	return string(body), nil
}

// Get returns the body of the admin API's answer, which must be 200.
func (b *Balancer) Get(t testing.TB, path string) string {
	t.Helper()
	body, err := b.get(path)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// Metric sums the samples of a metric whose labels contain all of the given
// pairs, each as it stands in the text: name="value". No sample is 0, but XLB
// must know the name; Envoy leaves out what it has not used.
func (b *Balancer) Metric(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	path := "/metrics"
	if b.envoy {
		path = envoyMetrics
	}
	text := b.Get(t, path)
	if !b.envoy && !hasMetric(text, name) {
		t.Fatalf("XLB has no metric %s", name)
	}
	sum, err := sumSamples(text, name, labels)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// Samples returns the samples of a metric of XLB by the value of one of its labels.
func (b *Balancer) Samples(t testing.TB, name, label string) map[string]float64 {
	t.Helper()
	samples := map[string]float64{}
	for line := range strings.Lines(b.Get(t, "/metrics")) {
		rest, ok := strings.CutPrefix(line, name+"{")
		_, rest, labelled := strings.Cut(rest, label+`="`)
		if !ok || !labelled {
			continue
		}
		key, rest, _ := strings.Cut(rest, `"`)
		value, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndex(rest, "}")+1:]), 64)
		if err != nil {
			t.Fatalf("metric %s: %v", line, err)
		}
		samples[key] += value
	}
	if len(samples) == 0 {
		t.Fatalf("XLB has no metric %s with a label %s", name, label)
	}
	return samples
}

// hasMetric tells whether a text in Prometheus's format declares a metric.
func hasMetric(text, name string) bool {
	return strings.Contains(text, "# TYPE "+name+" ")
}

// sumSamples adds up the samples of a metric in Prometheus's text format.
func sumSamples(text, name string, labels []string) (sum float64, err error) {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || !strings.ContainsAny(rest[:1], "{ ") || !containsAll(rest, labels) {
			continue
		}
		// The value follows the labels, and a time may follow the value.
		fields := strings.Fields(rest[strings.LastIndex(rest, "}")+1:])
		if len(fields) == 0 {
			return 0, fmt.Errorf("metric without a value: %s", line)
		}
		value, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", line, err)
		}
		sum += value
	}
	return sum, nil
}

func containsAll(s string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

// Served returns how many requests the kernel and the daemon have served.
func (b *Balancer) Served(t testing.TB) (fast, slow float64) {
	t.Helper()
	return b.Metric(t, "xlb_requests_total", `path="fast"`), b.Metric(t, "xlb_requests_total", `path="slow"`)
}

// growing is how many requests may find no idle i-sock while the pools grow to what a load needs, and how many behind these may be served slowly as well: a
// client that has its answer sends the next one before the daemon has given the connection back, on a busy machine several times in a row. The kernel hands it
// over ("pipelined"), or the daemon reads it itself. A load of few requests has more of these than any share allows.
const growing = 64

// ServedSoFar says how requests were served: in the kernel and in the daemon, and how many of these found no idle i-sock, or came too soon and were handed over for
// that, or were not handed over at all.
type ServedSoFar struct{ fast, slow, empty, behind, unseen float64 }

// ServedSoFar is what RequireFastSince begins with.
func (b *Balancer) ServedSoFar(t testing.TB) ServedSoFar {
	t.Helper()
	fast, slow := b.Served(t)
	handovers := func(labels ...string) float64 { return b.Metric(t, "xlb_handovers_total", labels...) }
	return ServedSoFar{fast, slow, handovers(`reason="pool_empty"`), handovers(`reason="pipelined"`), slow - handovers()}
}

// RequireFast fails unless the kernel has served at least this share of the
// requests, as a fraction of 1. It says nothing in other modes.
func (b *Balancer) RequireFast(t testing.TB, mode Mode, share float64) {
	t.Helper()
	b.RequireFastSince(t, mode, ServedSoFar{}, share)
}

// RequireFastSince is RequireFast of the requests since a moment: those before, as of a client that no endpoint can serve, are the daemon's.
func (b *Balancer) RequireFastSince(t testing.TB, mode Mode, before ServedSoFar, share float64) {
	t.Helper()
	if !mode.Fast {
		return
	}
	now := b.ServedSoFar(t)
	fast, slow, empty, behind := now.fast-before.fast, now.slow-before.slow, now.empty-before.empty, now.behind-before.behind
	if empty+behind > 0 {
		behind += max(now.unseen-before.unseen, 0)
	}
	slow -= min(slow, min(growing, empty)+min(growing, max(empty, behind)))
	if fast < share*(fast+slow) || fast == 0 {
		t.Errorf("served fast: got %.0f of %.0f, want at least %.0f %%\n%s", fast, fast+slow, 100*share, b.handovers(t))
	}
}

// handovers are the lines that tell why requests were not served fast.
func (b *Balancer) handovers(t testing.TB) string {
	t.Helper()
	var lines strings.Builder
	for line := range strings.Lines(b.Get(t, "/metrics")) {
		if strings.HasPrefix(line, "xlb_handovers_total") {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

// EndpointRequests counts requests by endpoint as /clusters reports them.
func (b *Balancer) EndpointRequests(t testing.TB) map[string]int {
	t.Helper()
	var answer struct {
		ClusterStatuses []struct {
			HostStatuses []struct {
				Address struct {
					SocketAddress struct {
						Address   string `json:"address"`
						PortValue int    `json:"port_value"`
					} `json:"socket_address"`
				} `json:"address"`
				Stats []struct {
					Name  string          `json:"name"`
					Value json.RawMessage `json:"value"`
				} `json:"stats"`
			} `json:"host_statuses"`
		} `json:"cluster_statuses"`
	}
	if err := json.Unmarshal([]byte(b.Get(t, "/clusters?format=json")), &answer); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, c := range answer.ClusterStatuses {
		for _, h := range c.HostStatuses {
			a := h.Address.SocketAddress
			for _, s := range h.Stats {
				if s.Name != "rq_total" {
					continue
				}
				// Protobuf's JSON writes 64-bit numbers as strings, and leaves out 0.
				n, err := strconv.Atoi(cmp.Or(strings.Trim(string(s.Value), `"`), "0"))
				if err != nil {
					t.Fatal(err)
				}
				counts[fmt.Sprintf("%s:%d", a.Address, a.PortValue)] += n
			}
		}
	}
	return counts
}

// Terminate asks for a graceful end; the balancer still finishes requests.
func (b *Balancer) Terminate(t testing.TB) {
	t.Helper()
	if b.envoy {
		b.terminateEnvoy(t)
		return
	}
	b.Signal(t, syscall.SIGTERM)
}

// Memory is the resident memory of the daemon in bytes, what it shares with the kernel included.
func (b *Balancer) Memory(t testing.TB) int64 {
	t.Helper()
	return b.status(t, "VmRSS:")
}

// OwnMemory is what of it is nobody else's.
func (b *Balancer) OwnMemory(t testing.TB) int64 {
	t.Helper()
	return b.status(t, "RssAnon:")
}

// PeakMemory is the most that Memory has been.
func (b *Balancer) PeakMemory(t testing.TB) int64 {
	t.Helper()
	return b.status(t, "VmHWM:")
}

// status is an amount of memory, in bytes, that the kernel tells of the daemon.
func (b *Balancer) status(t testing.TB, name string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("no %s in the status of the daemon", name)
	return 0
}

// Switches is how often the daemon's threads have run so far.
func (b *Balancer) Switches(t testing.TB) int64 {
	t.Helper()
	return b.scheduled(t, 2)
}

// ProcessorTime is what the daemon's threads have had so far.
func (b *Balancer) ProcessorTime(t testing.TB) time.Duration {
	t.Helper()
	return time.Duration(b.scheduled(t, 0))
}

// scheduled adds up what a column of schedstat says of the daemon's threads.
func (b *Balancer) scheduled(t testing.TB, column int) (sum int64) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", b.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		// A thread may have ended.
		stat, _ := os.ReadFile(file)
		if fields := strings.Fields(string(stat)); len(fields) == 3 {
			n, err := strconv.ParseInt(fields[column], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// Niceness are those that threads of the daemon have, each once.
func (b *Balancer) Niceness(t testing.TB) (all []int) {
	t.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", b.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			t.Fatal(err)
		}
		// A thread may have ended. The system call adds 20 and changes the sign.
		if n, err := syscall.Getpriority(syscall.PRIO_PROCESS, id); err == nil && !slices.Contains(all, 20-n) {
			all = append(all, 20-n)
		}
	}
	return all
}

// Descriptors counts the open descriptors of the daemon.
func (b *Balancer) Descriptors(t testing.TB) int {
	t.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.PID()))
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

// Namespaces counts the network namespaces that the daemon has descriptors of.
func (b *Balancer) Namespaces(t testing.TB) (n int) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", b.PID())
	open, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range open {
		// One that has been closed meanwhile has no link.
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.HasPrefix(to, "net:[") {
			n++
		}
	}
	return n
}

// HasOpen reports whether the daemon has a file open.
func (b *Balancer) HasOpen(t testing.TB, path string) bool {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", b.PID())
	open, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(open, func(e os.DirEntry) bool {
		to, err := os.Readlink(filepath.Join(dir, e.Name()))
		return err == nil && to == path // one that has been closed meanwhile has no link
	})
}

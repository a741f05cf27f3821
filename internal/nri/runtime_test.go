// SPDX-License-Identifier: Apache-2.0

package nri

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"go.uber.org/goleak"

	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/pod"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/nritest"
)

// TestMain takes the clock out of the verdicts: a test whose subject is a bound sets it.
func TestMain(m *testing.M) {
	limits.NRI.Connect, limits.NRI.Whole = time.Hour, time.Hour
	goleak.VerifyTestMain(m)
}

const longTimeout = nritest.LongTimeout

// recorder is Pods that writes down what it is called with. While gate is not nil, PodBegins waits for an element of it.
type recorder struct {
	gate    chan struct{}
	entered chan string

	mu    sync.Mutex
	calls []string
	pods  []pod.Pod
}

func newRecorder() *recorder { return &recorder{entered: make(chan string, 2*maxWaiting)} }

func (r *recorder) note(call string, pods ...pod.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls, r.pods = append(r.calls, call), append(r.pods, pods...)
}

func (r *recorder) PodsAre(list []pod.Pod) { r.note(fmt.Sprintf("are %d", len(list)), list...) }

func (r *recorder) PodBegins(p pod.Pod) {
	r.entered <- p.Sandbox
	if r.gate != nil {
		<-r.gate
	}
	r.note("begins "+p.Sandbox, p)
}

func (r *recorder) PodEnded(sandbox string) { r.note("ended " + sandbox) }

func (r *recorder) listed() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.calls, ", ")
}

// await polls until exactly these calls have returned.
func (r *recorder) await(t *testing.T, want string) {
	t.Helper()
	await.Quiet(t, func() string {
		if got := r.listed(); got != want {
			return fmt.Sprintf("the calls are %q, want %q", got, want)
		}
		return ""
	})
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// count is how many lines have all of these parts.
func (l *lines) count(parts ...string) (n int) {
	for line := range strings.Lines(l.String()) {
		has := true
		for _, part := range parts {
			has = has && strings.Contains(line, part)
		}
		if has {
			n++
		}
	}
	return n
}

// rig is a client that runs.
type rig struct {
	*Client
	pods   *recorder
	log    *lines
	socket string
	// end ends it, and waits until Run has returned.
	end func()
}

func newRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	r := &rig{pods: newRecorder(), log: &lines{}, socket: filepath.Join(t.TempDir(), "nri.sock")}
	cfg := Config{Socket: r.socket, Pods: r.pods, Logger: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, c := range change {
		c(&cfg)
	}
	client, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	client.pause.first, client.pause.longest = time.Millisecond, time.Millisecond
	r.Client = client
	return r
}

func (r *rig) run(t *testing.T) *rig {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		r.Run(ctx)
		close(ended)
	}()
	r.end = func() {
		t.Helper()
		cancel()
		await.Next(t, ended, "the end of Run")
	}
	t.Cleanup(r.end)
	return r
}

// runtime is the side of NRI that a container runtime has.
type runtime struct {
	*nritest.Runtime
	t *testing.T
}

func listen(t *testing.T, socket string) *runtime {
	t.Helper()
	return &runtime{nritest.Listen(t, socket), t}
}

// connection is one plugin's. Its calls are those of the runtime.
type connection struct{ *nritest.Connection }

// plugin accepts a connection and serves it until the plugin has registered.
func (r *runtime) plugin(refusal error) *connection {
	r.t.Helper()
	c := r.Serve(refusal)
	got := await.Next(r.t, c.Registered, "a registration")
	if got.GetPluginName() != pluginName || got.GetPluginIdx() != pluginIndex {
		r.t.Errorf("the plugin is %s-%s", got.GetPluginIdx(), got.GetPluginName())
	}
	return &connection{c}
}

// register accepts connections until a plugin has registered, which may have no time for that.
func (r *runtime) register() {
	r.t.Helper()
	for {
		c := r.Serve(nil)
		select {
		case <-c.Registered:
			return
		case <-c.Closed:
		}
	}
}

// connected is a plugin that has all pods.
func (r *runtime) connected(timeout time.Duration, pods ...*api.PodSandbox) *connection {
	r.t.Helper()
	c := r.plugin(nil)
	c.MustConfigure(timeout)
	c.MustSynchronize(pods...)
	return c
}

func (c *connection) begin(id string) { c.MustBegin(sandbox(id)) }

func (c *connection) stop(id string) { c.MustStop(sandbox(id)) }

func (c *connection) remove(id string) { c.MustRemove(sandbox(id)) }

func sandbox(id string) *api.PodSandbox {
	return &api.PodSandbox{
		Id: id, Name: "name-" + id, Namespace: "shop", Uid: "uid-" + id, Pid: 4711,
		Linux: &api.LinuxPodSandbox{Namespaces: []*api.LinuxNamespace{{Type: "ipc"}, {Type: "network", Path: "/run/netns/" + id}}},
	}
}

func podNamed(id string) pod.Pod {
	return pod.Pod{Runtime: "containerd", Sandbox: id, Name: "name-" + id, Namespace: "shop", UID: "uid-" + id, PID: 4711, Netns: "/run/netns/" + id}
}

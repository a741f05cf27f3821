// SPDX-License-Identifier: Apache-2.0

package nri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/ttrpc"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/pod"
	"github.com/xlb-project/xlb/test/await"
)

func TestPodsOfTheRuntimeAreTakenIn(t *testing.T) {
	r := newRig(t)
	plugin := listen(t, r.socket)
	r.run(t)
	c := plugin.plugin(nil)
	answer := c.MustConfigure(longTimeout)
	var want api.EventMask
	want.Set(api.Event_RUN_POD_SANDBOX, api.Event_STOP_POD_SANDBOX, api.Event_REMOVE_POD_SANDBOX)
	if got := api.EventMask(answer.GetEvents()); got != want {
		t.Errorf("subscribed to %s, want %s", got.PrettyString(), want.PrettyString())
	}
	if p := answer.GetFailurePolicy(); p.GetFailRequest() || p.GetKeepConnected() {
		t.Errorf("the policy for failures is %v", p)
	}
	if s := r.State(); s.Connected {
		t.Errorf("connected before there are pods: %+v", s)
	}
	// A long list comes in parts.
	part, err := c.Synchronize(t.Context(), &api.SynchronizeRequest{Pods: []*api.PodSandbox{sandbox("a")}, More: true})
	if err != nil || !part.GetMore() {
		t.Fatalf("a part is answered with %v, %v", part, err)
	}
	host := &api.PodSandbox{Id: "h", Name: "h", Namespace: "kube-system", Labels: map[string]string{pod.IstioLabel: "none"}}
	c.MustSynchronize(host, sandbox("a"))
	await.Next(t, r.Synchronized(), "the runtime's pods")
	wish := pod.Wish{Choice: pod.Out, Label: pod.IstioLabel + ": none"}
	hosts := pod.Pod{Runtime: "containerd", Sandbox: "h", Name: "h", Namespace: "kube-system", Wish: wish, Labels: mustKeep(t, host.Labels)}
	if diff := cmp.Diff([]pod.Pod{podNamed("a"), hosts}, r.pods.pods); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(State{Connected: true, Runtime: "containerd 2.3.7"}, r.State()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if n := r.log.count("level=INFO", `msg="connected to a container runtime"`, `runtime="containerd 2.3.7"`, "pods=2"); n != 1 || r.log.count("level=WARN") > 0 {
		t.Errorf("%d lines of it:\n%s", n, r.log.String())
	}
}

func TestRuntimeWaitsUntilAPodIsServed(t *testing.T) {
	r := newRig(t)
	r.pods.gate = make(chan struct{})
	c := connect(t, r, longTimeout)
	answered := make(chan struct{})
	go func() {
		c.begin("a")
		close(answered)
	}()
	await.Next(t, r.pods.entered, "the pod")
	select {
	case <-answered:
		t.Error("the runtime was answered before the pod is served")
	default:
	}
	r.pods.gate <- struct{}{}
	await.Next(t, answered, "the answer")
	r.pods.await(t, "are 0, begins a")
	if diff := cmp.Diff(State{Connected: true, Runtime: "containerd 2.3.7", Pods: 1}, r.State()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// connect has a client run that is connected to a runtime without pods.
func connect(t *testing.T, r *rig, timeout time.Duration) *connection {
	t.Helper()
	plugin := listen(t, r.socket)
	r.run(t)
	c := plugin.connected(timeout)
	r.pods.await(t, "are 0")
	return c
}

// A runtime has a time limit, and disconnects a plugin that keeps it waiting for longer. What it reports meanwhile comes later, and in order.
func TestPodThatTakesLongKeepsTheRuntimeWaitingForHalfItsTime(t *testing.T) {
	r := newRig(t)
	r.pods.gate = make(chan struct{})
	c := connect(t, r, 20*time.Millisecond)
	c.begin("a")
	c.begin("b")
	c.stop("a")
	c.begin("a")
	r.pods.await(t, "are 0")
	if s := r.State(); s.Late != 3 || s.Pods != 3 || !s.Connected {
		t.Errorf("got %+v", s)
	}
	if n := r.log.count("level=WARN", "starts before it is served", "pod=shop/name-b"); n != 1 {
		t.Errorf("%d lines of it:\n%s", n, r.log.String())
	}
	close(r.pods.gate)
	r.pods.await(t, "are 0, begins a, begins b, ended a, begins a")
}

func TestBoundIsOursWhereTheRuntimeHasMoreTimeOrNone(t *testing.T) {
	whole := limits.NRI.Whole
	limits.NRI.Whole = 10 * time.Millisecond
	t.Cleanup(func() { limits.NRI.Whole = whole })
	for name, timeout := range map[string]time.Duration{"more": longTimeout, "none": 0, "negative": -time.Second} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.pods.gate = make(chan struct{})
			c := connect(t, r, timeout)
			c.begin("a")
			if s := r.State(); s.Late != 1 {
				t.Errorf("got %+v", s)
			}
			close(r.pods.gate)
			r.pods.await(t, "are 0, begins a")
		})
	}
}

func TestPodEndsOnce(t *testing.T) {
	r := newRig(t)
	c := connect(t, r, longTimeout)
	c.begin("a")
	c.stop("a")
	c.stop("a")
	c.remove("a")
	c.remove("unknown")
	c.begin("b")
	c.remove("b")
	r.pods.await(t, "are 0, begins a, ended a, begins b, ended b")
}

// Older runtimes report by another request.
func TestEventsOfOlderRuntimesAreTakenIn(t *testing.T) {
	r := newRig(t)
	c := connect(t, r, longTimeout)
	for _, e := range []api.Event{api.Event_RUN_POD_SANDBOX, api.Event_STOP_POD_SANDBOX, api.Event_REMOVE_POD_SANDBOX} {
		if _, err := c.StateChange(t.Context(), &api.StateChangeEvent{Event: e, Pod: sandbox("a")}); err != nil {
			t.Fatal(err)
		}
	}
	r.pods.await(t, "are 0, begins a, ended a")
}

func TestRuntimeThatRestartsIsConnectedToAgain(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Optional = true })
	first := listen(t, r.socket)
	r.run(t)
	c := first.connected(longTimeout, sandbox("a"), sandbox("b"))
	r.pods.await(t, "are 2")
	_ = first.Close()
	c.Close()
	await.Quiet(t, func() string {
		if r.State().Connected {
			return "still connected"
		}
		return ""
	})
	c = listen(t, r.socket).connected(longTimeout, sandbox("b"))
	r.pods.await(t, "are 2, are 1")
	// The runtime has not said that "a" has ended, and does not know it any more.
	c.remove("a")
	c.remove("b")
	r.pods.await(t, "are 2, are 1, ended b")
	if s := r.State(); !s.Connected || s.Failed != 1 {
		t.Errorf("got %+v", s)
	}
	if n := r.log.count("level=WARN", errClosed.Error()); n != 1 {
		t.Errorf("%d lines of it:\n%s", n, r.log.String())
	}
}

// What the log has last of a connection is how it is.
func TestEachEndOfAConnectionIsLogged(t *testing.T) {
	r := newRig(t)
	plugin := listen(t, r.socket)
	r.run(t)
	for i := range 3 {
		plugin.connected(longTimeout).Close()
		await.Quiet(t, func() string {
			if n := r.log.count("level=WARN", errClosed.Error()); n != i+1 {
				return fmt.Sprintf("%d lines say so, want %d", n, i+1)
			}
			return ""
		})
	}
}

func TestRuntimeMayStartLater(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Optional = true }).run(t)
	await.Next(t, r.Synchronized(), "that there is no runtime")
	await.Quiet(t, func() string {
		if r.log.count("level=DEBUG", "no container runtime offers NRI") < 3 {
			return "no three attempts"
		}
		return ""
	})
	if s := r.State(); s != (State{}) {
		t.Errorf("an optional runtime that is not there counts: %+v", s)
	}
	listen(t, r.socket).connected(longTimeout, sandbox("a"))
	r.pods.await(t, "are 1")
	if n := r.log.count("level=WARN"); n > 0 {
		t.Errorf("%d warnings:\n%s", n, r.log.String())
	}
}

// Neither a library's nor a runtime's fault may hang the client.
func TestSilentRuntimeIsGivenUp(t *testing.T) {
	bound := limits.NRI.Connect
	t.Cleanup(func() { limits.NRI.Connect = bound })
	const short = 20 * time.Millisecond
	tests := []struct {
		name  string
		bound time.Duration
		play  func(*runtime)
		cause string
	}{
		{"says nothing", short, func(r *runtime) { r.Accept() }, "has not answered within 20ms"},
		{"does not configure the plugin", short, func(r *runtime) { r.register() }, "has not answered within 20ms"},
		{"closes at once", bound, func(r *runtime) { _ = r.Accept().Close() }, errClosed.Error()},
		{"closes behind the registration", bound, func(r *runtime) { r.plugin(nil).Close() }, errClosed.Error()},
		{"closes behind the answer to it", bound, func(r *runtime) {
			c := r.plugin(nil)
			// By the last of these the plugin has nearly always read the answer.
			for range 3 {
				if _, err := c.Shutdown(r.t.Context(), &api.Empty{}); err != nil {
					r.t.Fatal(err)
				}
			}
			c.Close()
		}, errClosed.Error()},
		{"refuses the plugin", bound, func(r *runtime) { r.plugin(errors.New("no plugins today")) }, "no plugins today"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			limits.NRI.Connect = tt.bound
			r := newRig(t)
			plugin := listen(t, r.socket)
			r.run(t)
			tt.play(plugin)
			await.Next(t, r.Synchronized(), "that there is no runtime")
			await.Quiet(t, func() string {
				if r.log.count("level=WARN", "no connection to the container runtime", tt.cause) == 0 {
					return "no line says so:\n" + r.log.String()
				}
				return ""
			})
			if s := r.State(); s.Failed == 0 || s.Connected {
				t.Errorf("got %+v", s)
			}
		})
	}
}

// The library gives up after as long by itself, and does not say for what it has waited.
// Who may make pods decides how long a runtime's list is.
func TestWhatIsNotReadOfAListIsNotGathered(t *testing.T) {
	fat := sandbox("a")
	fat.Annotations = map[string]string{"a": "b"}
	message := &api.SynchronizeRequest{}
	fill := func(m any) error {
		proto.Merge(m.(proto.Message), &api.SynchronizeRequest{Pods: []*api.PodSandbox{fat}, Containers: []*api.Container{{Id: "c"}}, More: true})
		return nil
	}
	_, err := slim(t.Context(), fill, nil, func(_ context.Context, unmarshal func(any) error) (any, error) { return nil, unmarshal(message) })
	if want := (&api.SynchronizeRequest{Pods: []*api.PodSandbox{sandbox("a")}, More: true}); err != nil || !proto.Equal(message, want) {
		t.Errorf("got %v, %v, want %v", message, err, want)
	}
	broken := errors.New("not a message")
	fill = func(any) error { return broken }
	if _, err := slim(t.Context(), fill, nil, func(_ context.Context, unmarshal func(any) error) (any, error) { return nil, unmarshal(message) }); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func TestSilenceIsTheReasonAlsoWhereTheLibraryGivesUp(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	s := &session{end: end, configured: make(chan struct{})}
	library, cancel := context.WithTimeout(ctx, time.Nanosecond)
	defer cancel()
	_ = s.register(library, nil, nil, nil, func(ctx context.Context, _ *ttrpc.Request, _ *ttrpc.Response) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if err := context.Cause(ctx); err == nil || !strings.Contains(err.Error(), "has not answered within") {
		t.Errorf("got %v", err)
	}
}

// The library does not wait for its handlers when a connection ends. The next one may have reported all pods by then.
func TestWhatComesBehindTheEndOfAConnectionCountsNoMore(t *testing.T) {
	r := newRig(t)
	last := &session{client: r.Client}
	if _, err := last.Synchronize(t.Context(), []*api.PodSandbox{sandbox("a")}, nil); err != nil || !r.State().Connected {
		t.Fatalf("got %v, %+v, want a connection", err, r.State())
	}
	waiting := len(r.queue.waiting)
	last.disconnected()
	if _, err := last.Synchronize(t.Context(), nil, nil); err != nil {
		t.Error(err)
	}
	if done, _ := last.begin(sandbox("b")); done != nil {
		t.Error("the pod waits to be served")
	}
	if err := last.StopPodSandbox(t.Context(), sandbox("a")); err != nil {
		t.Error(err)
	}
	if state := r.State(); state.Connected || state.Pods != 0 || len(r.queue.waiting) != waiting {
		t.Errorf("got %+v, %d events, want no connection, no pod, and %d", state, len(r.queue.waiting), waiting)
	}
}

func TestGarbageEndsTheConnection(t *testing.T) {
	frame := func(id byte, payload string) string {
		return string([]byte{0, 0, 0, id, 0, 0, 0, byte(len(payload))}) + payload
	}
	tests := []struct{ name, bytes string }{
		{"text", "HTTP/1.1 400 Bad Request\r\n\r\n"},
		{"frame without end", "\x00\x00\x00\x01\xff\xff\xff\xff"},
		{"short frame", "\x00\x00"},
		{"message without end", frame(2, "\xff\xff\xff\xff\x00\x00\x00\x01\x02\x00")},
		{"malformed answer", frame(2, "\x00\x00\x00\x03\x00\x00\x00\x01\x02\x00\xff\xff\xff")},
		{"malformed request", frame(1, "\x00\x00\x00\x03\x00\x00\x00\x01\x01\x00\xff\xff\xff")},
		{"connections that nothing reads", strings.Repeat(frame(9, "abc"), 1000)},
		{"empty frames", strings.Repeat(frame(2, ""), 10000)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			plugin := listen(t, r.socket)
			r.run(t)
			conn := plugin.Accept()
			// The client may have gone amid them.
			_, _ = conn.Write([]byte(tt.bytes))
			_ = conn.Close()
			c := plugin.connected(longTimeout, sandbox("a"))
			r.pods.await(t, "are 1")
			c.begin("b")
			if s := r.State(); s.Failed != 1 || !s.Connected {
				t.Errorf("got %+v", s)
			}
		})
	}
}

// What the end of the daemon finds at each stage is closed, and Run returns: the test's main function looks for goroutines.
func TestEndIsPromptAtEachStage(t *testing.T) {
	tests := []struct {
		name string
		play func(*testing.T, *rig)
	}{
		{"without a socket", func(t *testing.T, r *rig) {
			r.run(t)
			await.Next(t, r.Synchronized(), "that there is no runtime")
		}},
		{"accepted", func(t *testing.T, r *rig) {
			plugin := listen(t, r.socket)
			r.run(t)
			plugin.Accept()
		}},
		{"registered", func(t *testing.T, r *rig) {
			plugin := listen(t, r.socket)
			r.run(t)
			plugin.plugin(nil)
		}},
		{"configured", func(t *testing.T, r *rig) {
			plugin := listen(t, r.socket)
			r.run(t)
			plugin.plugin(nil).MustConfigure(longTimeout)
		}},
		{"synchronized", func(t *testing.T, r *rig) { connect(t, r, longTimeout) }},
		{"between the parts of a list", func(t *testing.T, r *rig) {
			plugin := listen(t, r.socket)
			r.run(t)
			c := plugin.plugin(nil)
			c.MustConfigure(longTimeout)
			if _, err := c.Synchronize(t.Context(), &api.SynchronizeRequest{More: true}); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			tt.play(t, r)
			r.end()
			if r.State().Connected {
				t.Error("still connected")
			}
		})
	}
}

// The runtime is answered, by the end of the connection, while a call is under way; Run has returned when that has.
func TestEndWaitsForTheCallUnderWayAlone(t *testing.T) {
	r := newRig(t)
	r.pods.gate = make(chan struct{})
	c := connect(t, r, longTimeout)
	failed := make(chan error, 2)
	for _, id := range []string{"a", "b"} {
		go func() {
			_, err := c.RunPodSandbox(context.Background(), &api.RunPodSandboxRequest{Pod: sandbox(id)})
			failed <- err
		}()
	}
	first := await.Next(t, r.pods.entered, "a pod")
	await.Quiet(t, func() string {
		if r.State().Pods != 2 {
			return "no second pod"
		}
		return ""
	})
	ended := make(chan struct{})
	go func() {
		r.end()
		close(ended)
	}()
	for range 2 {
		await.Next(t, failed, "the end of the connection")
	}
	select {
	case <-ended:
		t.Error("Run has returned while a pod is being served")
	default:
	}
	r.pods.gate <- struct{}{}
	await.Next(t, ended, "the end of Run")
	r.pods.await(t, "are 0, begins "+first)
}

func TestFailureIsLoggedOnceUntilItChanges(t *testing.T) {
	r := newRig(t)
	file := filepath.Join(filepath.Dir(r.socket), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r = newRig(t, func(c *Config) { c.Socket = filepath.Join(file, "nri.sock") }).run(t)
	requireFailures := func(more uint64) {
		t.Helper()
		enough := r.State().Failed + more
		await.Quiet(t, func() string {
			if s := r.State(); s.Failed < enough {
				return fmt.Sprintf("%d attempts, want %d", s.Failed, enough)
			}
			return ""
		})
	}
	requireFailures(3)
	if n := r.log.count("level=WARN"); n != 1 || r.log.count("level=WARN", "not a directory", "--nri=off") != 1 {
		t.Errorf("%d warnings:\n%s", n, r.log.String())
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	requireFailures(3)
	if n := r.log.count("level=WARN"); n != 2 || r.log.count("level=WARN", "no such file or directory") != 1 {
		t.Errorf("%d warnings:\n%s", n, r.log.String())
	}
}

// The modes of files hold for the daemon, also as root: what helps then is another mode, and no setting of the runtime.
func TestASocketOfAnotherUserHasARemedyOfItsOwn(t *testing.T) {
	r := newRig(t)
	r.failed(&net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", unix.EACCES)})
	if r.log.count("level=WARN", "permission denied", "make the socket root's, or writable for all", "CAP_DAC_OVERRIDE", "--nri=off") != 1 {
		t.Error(r.log.String())
	}
}

// Events that are more than the queue holds are made up for by another connection, with all pods.
func TestFullQueueAsksForAllPodsAnew(t *testing.T) {
	r := newRig(t)
	r.pods.gate = make(chan struct{})
	plugin := listen(t, r.socket)
	r.run(t)
	c := plugin.connected(2 * time.Millisecond)
	r.pods.await(t, "are 0")
	c.begin("first")
	await.Next(t, r.pods.entered, "the first pod")
	for i := range maxWaiting {
		c.begin(fmt.Sprint("pod-", i))
	}
	if s := r.State(); s.Lost != 0 {
		t.Fatalf("got %+v", s)
	}
	// The answer to the one that is lost may be lost with the connection.
	_, _ = c.RunPodSandbox(t.Context(), &api.RunPodSandboxRequest{Pod: sandbox("lost")})
	await.Next(t, c.Closed, "the end of the connection")
	c = plugin.connected(longTimeout, sandbox("first"), sandbox("lost"))
	close(r.pods.gate)
	r.pods.await(t, "are 0, begins first, are 2")
	c.stop("lost")
	r.pods.await(t, "are 0, begins first, are 2, ended lost")
	if s := r.State(); s.Lost != 1 || s.Failed != 1 || !s.Connected {
		t.Errorf("got %+v", s)
	}
	if n := r.log.count("level=WARN", errFull.Error()); n != 1 {
		t.Errorf("%d lines of it", n)
	}
}

func TestPodsWithNamesBeyondBoundsAreLeftOut(t *testing.T) {
	long := strings.Repeat("a", maxName+1)
	tests := []struct {
		name   string
		change func(*api.PodSandbox)
		want   string
	}{
		{"no ID", func(p *api.PodSandbox) { p.Id = "" }, "it has no ID"},
		{"long ID", func(p *api.PodSandbox) { p.Id = long }, "its ID has 254 bytes; at most 253 are taken"},
		{"long UID", func(p *api.PodSandbox) { p.Uid = long }, "its UID has 254 bytes; at most 253 are taken"},
		{"long namespace", func(p *api.PodSandbox) { p.Namespace = long }, "its namespace has 254 bytes; at most 253 are taken"},
		{"long name", func(p *api.PodSandbox) { p.Name = long }, "its name has 254 bytes; at most 253 are taken"},
		{"name with a slash", func(p *api.PodSandbox) { p.Name = "a/b" }, `its name is "a/b"; letters, digits, and "-", "_", ".", ":" are taken`},
		{"name with a line feed", func(p *api.PodSandbox) { p.Name = "a\nb" }, `its name is "a\nb"; letters, digits, and "-", "_", ".", ":" are taken`},
		{"long file", func(p *api.PodSandbox) { p.Linux.Namespaces[1].Path = "/" + strings.Repeat("a", maxNetns) }, "its network namespace has no name of a file of at most 4096 bytes"},
		{"file with a zero", func(p *api.PodSandbox) { p.Linux.Namespaces[1].Path = "/a\x00" }, "its network namespace has no name of a file of at most 4096 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := sandbox("a")
			tt.change(p)
			if _, err := podOf(p); err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	if _, err := podOf(nil); err == nil {
		t.Error("no pod is a pod")
	}
	r := newRig(t)
	plugin := listen(t, r.socket)
	r.run(t)
	c := plugin.connected(longTimeout, sandbox("a"), sandbox(long))
	c.begin(long)
	c.remove(long)
	c.begin("b")
	r.pods.await(t, "are 1, begins b")
	if s := r.State(); s.LeftOut != 2 || s.Pods != 2 {
		t.Errorf("got %+v", s)
	}
	if r.log.count("level=WARN", "pods of the container runtime are left out", "pods=1") != 1 || r.log.count("level=WARN", "a pod of the container runtime is left out") != 1 {
		t.Errorf("not each is logged once:\n%s", r.log.String())
	}
}

// The network namespace of its process is the host's, whose connections its labels do not decide over.
func TestAPodOfTheHostsNetworkIsKnownByNoProcess(t *testing.T) {
	host := sandbox("a")
	host.Linux.Namespaces = []*api.LinuxNamespace{{Type: "ipc"}, {Type: "mount"}}
	if p, err := podOf(host); err != nil || p.PID != 0 || p.Netns != "" {
		t.Errorf("a pod of the host's network: got %+v, %v", p, err)
	}
	unsaid := sandbox("a")
	unsaid.Linux = nil
	if p, err := podOf(unsaid); err != nil || p.PID != 4711 {
		t.Errorf("a pod without namespaces: got %+v, %v", p, err)
	}
}

func TestPodsBeyondTheirNumberAreLeftOut(t *testing.T) {
	r := newRig(t)
	list := make([]*api.PodSandbox, 0, maxPods+2)
	for i := range cap(list) {
		list = append(list, sandbox(fmt.Sprint("pod-", i)))
	}
	if got := r.admitAll(list); len(got) != maxPods || r.state.LeftOut != 2 {
		t.Errorf("%d pods are taken in, %d left out", len(got), r.state.LeftOut)
	}
	if _, err := r.admit(sandbox("another")); err == nil {
		t.Error("another one is taken in")
	}
	if _, err := r.admit(list[0]); err != nil {
		t.Errorf("one that is known is not taken in again: %v", err)
	}
	delete(r.sandboxes, "pod-0")
	if _, err := r.admit(sandbox("another")); err != nil {
		t.Errorf("where one has ended, another one is left out: %v", err)
	}
}

func TestLabelOfAnUnknownValueIsLoggedOnceForAPod(t *testing.T) {
	r := newRig(t)
	p := sandbox("a")
	p.Labels = map[string]string{pod.Label: "maybe"}
	plugin := listen(t, r.socket)
	r.run(t)
	c := plugin.connected(longTimeout, p)
	if _, err := c.RunPodSandbox(t.Context(), &api.RunPodSandboxRequest{Pod: p}); err != nil {
		t.Fatal(err)
	}
	c.Close()
	plugin.connected(longTimeout, p)
	r.pods.await(t, "are 1, begins a, are 1")
	if n := r.log.count("level=WARN", "pod=shop/name-a", `label="xlb-project.github.io/balance: maybe"`); n != 1 {
		t.Errorf("%d lines of it:\n%s", n, r.log.String())
	}
}

func mustKeep(t *testing.T, labels map[string]string) pod.Labels {
	t.Helper()
	kept, err := pod.LabelsOf(labels)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// Both a pod that is there when the runtime is connected to and one that begins have their labels.
func TestLabelsOfPodsAreTakenIn(t *testing.T) {
	r := newRig(t)
	a, b, c := sandbox("a"), sandbox("b"), sandbox("c")
	a.Labels = map[string]string{"app": "web", "io.kubernetes.pod.name": "name-a"}
	b.Labels = map[string]string{"app": "web", "io.kubernetes.pod.name": "name-b"}
	plugin := listen(t, r.socket)
	r.run(t)
	connection := plugin.connected(longTimeout, a)
	connection.MustBegin(b)
	connection.MustBegin(c)
	r.pods.await(t, "are 1, begins b, begins c")
	want := []pod.Labels{mustKeep(t, map[string]string{"app": "web"}), mustKeep(t, map[string]string{"app": "web"}), {}}
	for i, p := range r.pods.pods {
		if p.Labels != want[i] {
			t.Errorf("pod %s has the labels %q, want %q", p.Name, p.Labels, want[i])
		}
	}
}

// Who makes a pod chooses how many labels it has. One with too many is known without them, and obeyed as others are.
func TestLabelsBeyondTheirBoundLeaveAPodWithoutLabels(t *testing.T) {
	r := newRig(t)
	p := sandbox("a")
	p.Labels = map[string]string{pod.Label: "false"}
	for i := range 1000 {
		p.Labels[fmt.Sprint("label-", i)] = "value"
	}
	plugin := listen(t, r.socket)
	r.run(t)
	c := plugin.connected(longTimeout, p)
	c.MustBegin(p)
	c.Close()
	plugin.connected(longTimeout, p)
	r.pods.await(t, "are 1, begins a, are 1")
	for _, got := range r.pods.pods {
		if got.Name != "name-a" || got.Labels != (pod.Labels{}) || got.Wish.Choice != pod.Out {
			t.Errorf("got %+v, want the pod without labels, and left alone", got)
		}
	}
	if n := r.log.count("level=WARN", "pod=shop/name-a", "the labels of a pod are too long"); n != 1 {
		t.Errorf("%d lines of it:\n%s", n, r.log.String())
	}
	if s := r.State(); s.LeftOut != 0 {
		t.Errorf("%d pods are left out", s.LeftOut)
	}
}

func TestSettingsForThePluginAreRefused(t *testing.T) {
	r := newRig(t)
	plugin := listen(t, r.socket)
	r.run(t)
	if _, err := plugin.plugin(nil).Configure(t.Context(), &api.ConfigureRequest{Config: "a: b", RuntimeName: "other\n", RuntimeVersion: strings.Repeat("1", 100)}); err != nil {
		t.Fatal(err)
	}
	if n := r.log.count("level=WARN", "settings"); n != 1 {
		t.Errorf("%d lines of it:\n%s", n, r.log.String())
	}
	if got, want := r.State().Runtime, "other? "+strings.Repeat("1", maxShown); got != want {
		t.Errorf("the runtime is %q, want %q", got, want)
	}
}

func TestConfigIsChecked(t *testing.T) {
	logger := newRig(t).cfg.Logger
	tests := []struct {
		name string
		cfg  Config
		want string
	}{
		{"no socket", Config{Pods: newRecorder(), Logger: logger}, "no name of a socket"},
		{"long name", Config{Socket: "/" + strings.Repeat("a", longestSocket), Pods: newRecorder(), Logger: logger}, "has 108 bytes, and the kernel takes 107"},
		{"no pods", Config{Socket: "/a", Logger: logger}, "needs Pods and Logger"},
		{"no logger", Config{Socket: "/a", Pods: newRecorder()}, "needs Pods and Logger"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := New(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := New(Config{Socket: "/" + strings.Repeat("a", longestSocket-1), Pods: newRecorder(), Logger: logger}); err != nil {
		t.Error(err)
	}
}

func TestPausesDoubleUpToTheLongest(t *testing.T) {
	p := pause{first: time.Nanosecond, longest: 5 * time.Nanosecond}
	var got []time.Duration
	for range 5 {
		if !p.wait(t.Context()) {
			t.Fatal("no pause")
		}
		got = append(got, p.next)
	}
	p.reset()
	p.wait(t.Context())
	if diff := cmp.Diff([]time.Duration{1, 2, 4, 5, 5, 1}, append(got, p.next)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

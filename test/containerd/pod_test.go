// SPDX-License-Identifier: Apache-2.0

package containerd

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/xlb-project/xlb/test/e2e/harness"
)

// namespace is that of the tests' pods.
const namespace = "shop"

// pod is one that containerd runs, as the kubelet has it do.
type pod struct {
	node   *node
	config *cri.PodSandboxConfig
	// sandbox is containerd's ID, uid and name are Kubernetes'.
	sandbox, uid, name string
	network            cri.NamespaceMode
	// address is empty if the pod has the host's network.
	address netip.Addr
	// took is how long RunPodSandbox has taken: the last that the runtime does before a container may run.
	took       time.Duration
	containers int
}

// prepare says of a pod what the kubelet would. It is removed when the test ends.
func (n *node) prepare(labels map[string]string) *pod {
	p := &pod{node: n, uid: uuid.NewString(), name: fmt.Sprintf("pod-%d", len(n.pods))}
	n.pods = append(n.pods, p)
	p.config = &cri.PodSandboxConfig{
		Metadata: &cri.PodSandboxMetadata{Name: p.name, Uid: p.uid, Namespace: namespace}, Hostname: p.name,
		Labels: labels, LogDirectory: filepath.Join(n.dir, "logs", p.uid), DnsConfig: &cri.DNSConfig{},
		Linux: &cri.LinuxPodSandboxConfig{
			// The kubelet's driver cgroupfs makes it so for a pod that asks for less than its limits.
			CgroupParent:    n.cgroup("burstable", "pod"+p.uid),
			SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: p.namespaces()},
		},
	}
	return p
}

// begin makes the pod, without containers.
func (p *pod) begin(ctx context.Context) error {
	began := time.Now()
	answer, err := p.node.runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: p.config})
	p.took = time.Since(began)
	if err != nil {
		return fmt.Errorf("run a pod: %w", err)
	}
	p.sandbox = answer.PodSandboxId
	if p.network != cri.NamespaceMode_POD {
		return nil
	}
	status, err := p.node.runtime.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: p.sandbox})
	if err == nil {
		p.address, err = netip.ParseAddr(status.Status.Network.Ip)
	}
	if err != nil {
		return fmt.Errorf("ask for a pod's address: %w", err)
	}
	return nil
}

// pod makes a pod without containers, until the test ends or it is removed.
func (n *node) pod(t *testing.T, labels map[string]string) *pod {
	t.Helper()
	p := n.prepare(labels)
	if err := p.begin(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, n.process.Stderr())
	}
	return p
}

func (p *pod) namespaces() *cri.NamespaceOption {
	return &cri.NamespaceOption{Network: p.network, Pid: cri.NamespaceMode_CONTAINER, Ipc: cri.NamespaceMode_POD}
}

// remove ends a pod with its containers. Once it has gone it does nothing.
func (p *pod) remove(t *testing.T) {
	t.Helper()
	if p.sandbox == "" || !p.node.process.Alive() {
		return
	}
	// The test's own context has ended when this is a part of its end.
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := p.node.runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: p.sandbox})
	if err == nil {
		_, err = p.node.runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: p.sandbox})
	}
	if err != nil {
		t.Errorf("remove a pod: %v", err)
	}
	p.sandbox = ""
	p.removeCgroup()
}

// removeCgroup does what is the kubelet's task: a runtime removes the cgroups of containers alone.
func (p *pod) removeCgroup() {
	// What cannot be removed yet is removed when the test ends. The pattern has no fault.
	paths, _ := filepath.Glob(filepath.Join(v1Cgroups, "*", p.config.Linux.CgroupParent))
	for _, path := range append(paths, filepath.Join(filepath.Dir(p.node.kubepods.Cgroup()), p.config.Linux.CgroupParent)) {
		removeTree(path)
	}
}

// container is one that runs in a pod.
type container struct {
	pod *pod
	id  string
	log string
}

// run starts a container in the pod.
func (p *pod) run(ctx context.Context, arguments ...string) (*container, error) {
	p.containers++
	name := fmt.Sprintf("c%d", p.containers)
	created, err := p.node.runtime.CreateContainer(ctx, &cri.CreateContainerRequest{
		PodSandboxId: p.sandbox, SandboxConfig: p.config,
		Config: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: name}, Image: &cri.ImageSpec{Image: podImage}, Args: arguments, LogPath: name,
			Linux: &cri.LinuxContainerConfig{SecurityContext: &cri.LinuxContainerSecurityContext{NamespaceOptions: p.namespaces()}},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("create a container: %w", err)
	}
	if _, err := p.node.runtime.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: created.ContainerId}); err != nil {
		return nil, fmt.Errorf("start a container: %w", err)
	}
	return &container{pod: p, id: created.ContainerId, log: filepath.Join(p.config.LogDirectory, name)}, nil
}

// printed is what it has written so far, line by line.
func (c *container) printed(t *testing.T) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(c.log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line, whole := strings.CutSuffix(line, "\n")
		if !whole {
			break
		}
		// A time, the stream, F for a whole line.
		fields := strings.SplitN(line, " ", 4)
		if len(fields) != 4 {
			t.Fatalf("a line of a container's log: got %q, want four fields", line)
		}
		lines = append(lines, fields[3])
	}
	return lines
}

// end is the last line of a container that asks. When containerd says that it has ended, its log may not.
const end = "end"

// output waits for the end of a container that asks.
func (c *container) output(t *testing.T) (lines []string) {
	t.Helper()
	harness.Eventually(t, patience, "a container has said all", func() bool {
		lines = c.printed(t)
		return len(lines) > 0 && lines[len(lines)-1] == end
	})
	return lines[:len(lines)-1]
}

// serverPort is where servers in pods listen.
const serverPort = 8080

// serve runs a server in a pod of its own.
func (n *node) serve(t *testing.T, name string) netip.AddrPort {
	t.Helper()
	p := n.pod(t, nil)
	c, err := p.run(t.Context(), "serve", strconv.Itoa(serverPort), name)
	if err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, patience, "a server is ready", func() bool { return len(c.printed(t)) > 0 })
	return netip.AddrPortFrom(p.address, serverPort)
}

// startAsking runs a container that connects to the service, which is the first thing it does, and asks so many times.
func (p *pod) startAsking(ctx context.Context, service netip.AddrPort, count int) (*container, error) {
	return p.run(ctx, "ask", service.Addr().String(), strconv.Itoa(int(service.Port())), strconv.Itoa(count))
}

// refused is what a container has to say that connected to the service's address without a balancer: nothing has it.
const refused = "connect: Connection refused"

// ask runs such a container to its end, and returns the answers, or what failed.
func (p *pod) ask(t *testing.T, service netip.AddrPort, count int) []string {
	t.Helper()
	c, err := p.startAsking(t.Context(), service, count)
	if err != nil {
		t.Fatal(err)
	}
	return c.output(t)
}

// requireBalanced fails unless the pod's first connection of a new container is balanced: its requests are answered by the service, and come from the pod.
func (p *pod) requireBalanced(t *testing.T, service netip.AddrPort) {
	t.Helper()
	const requests = 4
	p.requireAnswers(t, p.ask(t, service, requests), requests)
}

func (p *pod) requireAnswers(t *testing.T, got []string, requests int) {
	t.Helper()
	from := 0
	for _, line := range got {
		if server, address, ok := strings.Cut(line, " from "); ok && slices.Contains(servers, server) && address == p.address.String() {
			from++
		}
	}
	if from != requests || len(got) != requests {
		t.Errorf("%s: answers: got %q, want %d of the service's servers, to %s", p.name, got, requests, p.address)
	}
}

// requireUnbalanced fails unless the first connection of a new container goes where its address leads.
func (p *pod) requireUnbalanced(t *testing.T, service netip.AddrPort) {
	t.Helper()
	if got := p.ask(t, service, 1); !slices.Equal(got, []string{refused}) {
		t.Errorf("%s: a connection that is not to be balanced: got %q, want %q", p.name, got, refused)
	}
}

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/nritest"
)

// sandboxOf is a pod as a container runtime reports it, whose network namespace has a name that the daemon does not watch.
func sandboxOf(t *testing.T, p *harness.Pod, name string, labels map[string]string) *api.PodSandbox {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	p.Name(t, path)
	return &api.PodSandbox{
		Id: "sandbox-" + name, Uid: "uid-" + name, Namespace: "shop", Name: name, Labels: labels,
		Linux: &api.LinuxPodSandbox{Namespaces: []*api.LinuxNamespace{{Type: "network", Path: path}}},
	}
}

// reported starts a balancer that a container runtime reports its pods to, and returns it and the connection between the two.
func reported(t *testing.T, mode harness.Mode, node *harness.Node, runtime *nritest.Runtime, config harness.Config, arguments ...string) (*harness.Balancer, *nritest.Connection) {
	t.Helper()
	return reportedWith(t, mode, node, runtime, config, nil, arguments...)
}

// reportedWith is reported with pods that are there when the balancer starts.
func reportedWith(t *testing.T, mode harness.Mode, node *harness.Node, runtime *nritest.Runtime, config harness.Config, pods []*api.PodSandbox, arguments ...string) (*harness.Balancer, *nritest.Connection) {
	t.Helper()
	connected := make(chan *nritest.Connection, 1)
	go func() { connected <- runtime.Connected(nritest.LongTimeout, pods...) }()
	config.Arguments = append([]string{"--nri", runtime.Socket(), "--namespace-directory", ""}, arguments...)
	balancer := harness.Start(t, mode, config, node.Place)
	return balancer, await.Next(t, connected, "a connection of the daemon to the runtime")
}

// requireShownAs fails unless the pod of a runtime has that state.
func requireShownAs(t *testing.T, b *harness.Balancer, pod *api.PodSandbox, state string) {
	t.Helper()
	labels := []string{fmt.Sprintf("pod=%q", pod.Name), fmt.Sprintf("pod_namespace=%q", pod.Namespace), fmt.Sprintf("pod_uid=%q", pod.Uid),
		fmt.Sprintf("container=%q", pod.Id), `runtime="containerd"`, fmt.Sprintf("state=%q", state)}
	await.Quiet(t, func() string {
		if got := b.Metric(t, "xlb_workload_info", labels...); got != 1 {
			return fmt.Sprintf("workloads with %v: got %v, want 1", labels, got)
		}
		return ""
	})
}

// A container runtime waits until a pod is served: its first connection is balanced, without a name of its network namespace. Labels leave pods alone.
func TestARuntimesPodIsBalancedFromItsFirstConnectionOn(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	const requests = 20
	in, out := map[string]string{"istio.io/dataplane-mode": "xlb"}, map[string]string{"istio.io/dataplane-mode": "none"}
	tests := []struct {
		name      string
		arguments []string
		labels    map[string]string
		want      string
	}{
		{"all", nil, nil, "balanced"},
		{"all but one", nil, out, "unbalanced"},
		{"labelled", []string{"--pods=labelled"}, in, "balanced"},
		{"none but labelled", []string{"--pods=labelled"}, nil, "unbalanced"},
	}
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				node := harness.NewNode(t)
				server := node.OtherHost(t)
				runtime := nritest.New(t)
				balancer, connection := reported(t, mode, node, runtime, harness.OneCluster(podService, originOf(t, server, "balanced", false)), tt.arguments...)
				pod, state := node.Pod(t), "served"
				sandbox := sandboxOf(t, pod, "web-0", tt.labels)
				from := pod.Address
				if tt.want == "unbalanced" {
					state, from = "excluded", podService.Addr()
					pod.AddAddress(t, podService.Addr().String()+"/32")
					pod.OriginAt(t, "unbalanced", podService)
				}
				connection.MustBegin(sandbox)
				requireShownAs(t, balancer, sandbox, state)
				load := runLoad(t, pod.Place, programs.LoadSpec{Address: podService.String(), Requests: requests, Asks: []programs.Ask{{Path: "/from"}}})
				requireEach(t, &load, from, requests, tt.want)
				if n := balancer.Metric(t, "xlb_verdicts_total", `verdict="connect_left_alone"`); (n != 0) != (tt.want == "unbalanced") {
					t.Errorf("connections of namespaces that are left alone: got %v", n)
				}
				if n := balancer.Metric(t, "xlb_verdicts_total", `verdict="connect_no_anchor"`); n != 0 {
					t.Errorf("connections of namespaces that the daemon does not know: got %v, want none", n)
				}
			})
		}
	})
}

// A runtime that restarts reports its pods anew. Those that opt out are left alone then, too, and what they have open is served to its end.
func TestALabelIsObeyedWhenTheRuntimeReturns(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		node := harness.NewNode(t)
		server := node.OtherHost(t)
		runtime := nritest.New(t)
		balancer, connection := reported(t, mode, node, runtime, harness.OneCluster(podService, originOf(t, server, "balanced", false)))
		pod := node.Pod(t)
		pod.Greeter(t, "resident")
		sandbox := sandboxOf(t, pod, "web-0", nil)
		connection.MustBegin(sandbox)
		load := pod.Program(t, programs.LoadProgram, programs.LoadSpec{Address: podService.String(), Connections: 1, Asks: []programs.Ask{{Path: "/from"}}})
		awaitAnswers(t, []*harness.Process{load}, 10)
		connection.Close()
		sandbox.Labels = map[string]string{"xlb-project.github.io/balance": "false"}
		runtime.Connected(nritest.LongTimeout, sandbox)
		requireShownAs(t, balancer, sandbox, "leaving")
		var report programs.LoadReport
		load.Finish(t, &report)
		requireEach(t, &report, pod.Address, report.Total, "balanced")
		requireShownAs(t, balancer, sandbox, "excluded")
	})
}

// A label that opts out is for what a pod serves as well: requests come to it through all that is in its network namespace.
func TestAPodThatIsLeftAloneGetsItsRequestsOverTCP(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		for _, six := range []bool{false, true} {
			t.Run(fmt.Sprint("IPv6 ", six), func(t *testing.T) {
				node := harness.NewNode(t)
				server, client := node.Pod(t), node.Pod(t)
				client.Greeter(t, "resident")
				runtime := nritest.New(t)
				service, from := podService, client.Address
				if six {
					service, from = podService6, client.Address6
				}
				balancer, connection := reported(t, mode, node, runtime, harness.OneCluster(service, originOf(t, server, "a", six)))
				sandbox := sandboxOf(t, server, "web-0", map[string]string{"istio.io/dataplane-mode": "none"})
				connection.MustBegin(sandbox)
				requireShownAs(t, balancer, sandbox, "excluded")
				joined := func() float64 { return balancer.Metric(t, "xlb_verdicts_total", `verdict="ssock_joined"`) }
				// The host has opened connections to it before.
				before := joined()
				const requests = 200
				load := runLoad(t, client.Place, programs.LoadSpec{Address: service.String(), Requests: requests, Asks: []programs.Ask{{Path: "/from"}}})
				requireEach(t, &load, from, requests, "a")
				requireFast(t, balancer, mode, requests)
				if n := joined() - before; n != 0 {
					t.Errorf("sockets of it that requests go straight to: got %v more, want 0", n)
				}
			})
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// workloadRow is what "xlb release", "xlb join" and "xlb get workloads" say of a network namespace in JSON.
type workloadRow struct {
	Netns       uint64 `json:"netns"`
	PID         int    `json:"pid"`
	Path        string `json:"path"`
	State       string `json:"state"`
	Connections int    `json:"connections"`
}

// changeWorkload runs "xlb release", or "xlb join", of the network namespace of a process.
func changeWorkload(t *testing.T, b *harness.Balancer, at *harness.Place, command string, pid int) (row workloadRow) {
	t.Helper()
	output, code := at.Run(t, harness.Binary(t), command, "--pid", strconv.Itoa(pid), "--admin", b.Admin.String(), "--output", "json").Printed(t, commandPatience)
	if err := json.Unmarshal([]byte(output), &row); err != nil || code != 0 {
		t.Fatalf("%s: exit code %d, %v: %s", command, code, err, output)
	}
	return row
}

// Connections of a network namespace that is released are served to their end, request by request; new ones go where they go without a balancer, until it
// is joined.
func TestAReleasedPodKeepsItsConnections(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		node := harness.NewNode(t)
		pod, other, server := node.Pod(t), node.Pod(t), node.OtherHost(t)
		pod.AddAddress(t, podService.Addr().String()+"/32")
		unbalanced := pod.OriginAt(t, "unbalanced", podService)
		other.Greeter(t, "resident")
		balancer := harness.Start(t, mode, harness.OneCluster(podService, originOf(t, server, "balanced", false)), node.Place)
		requireWorkloads(t, balancer, 2)
		kept := programs.LoadSpec{Address: podService.String(), Connections: 2, Pause: 2 * time.Millisecond, Asks: []programs.Ask{{Path: "/from"}}}
		loads := []*harness.Process{pod.Program(t, programs.LoadProgram, kept), other.Program(t, programs.LoadProgram, kept)}
		awaitAnswers(t, loads, 100)

		const requests = 20
		requireServed := func(from *harness.Pod, by string, seen fmt.Stringer) {
			t.Helper()
			load := runLoad(t, from.Place, programs.LoadSpec{Address: podService.String(), Requests: requests, Asks: []programs.Ask{{Path: "/from"}}})
			requireClean(t, load)
			if got := load.Served[0][fmt.Sprintf("%s from %s", by, seen)]; got != requests {
				t.Errorf("requests of a new connection to the server %q: got %d of %d: %v", by, got, requests, load.Served)
			}
		}
		for range 3 {
			if row := changeWorkload(t, balancer, node.Place, "release", unbalanced.PID()); row.State != "leaving" || row.Connections != kept.Connections {
				t.Errorf("released: got %+v, want it to be leaving with %d connections", row, kept.Connections)
			}
			requireServed(pod, "unbalanced", podService.Addr())
			requireServed(other, "balanced", other.Address)
			if row := changeWorkload(t, balancer, node.Place, "join", unbalanced.PID()); row.State != "served" {
				t.Errorf("joined: got %+v, want it to be served", row)
			}
			requireServed(pod, "balanced", pod.Address)
		}
		changeWorkload(t, balancer, node.Place, "release", unbalanced.PID())
		for i, from := range []*harness.Pod{pod, other} {
			var load programs.LoadReport
			loads[i].Finish(t, &load)
			requireClean(t, load)
			if got := load.Served[0][fmt.Sprintf("balanced from %s", from.Address)]; got != load.Total || load.Reconnects != 0 {
				t.Errorf("kept connections: %d of %d requests to the endpoint, %d connections ended: %v", got, load.Total, load.Reconnects, load.Served)
			}
		}
		requireWorkloads(t, balancer, 1)
		requireServed(pod, "unbalanced", podService.Addr())
		if got := checked(t, node.Place, unbalanced.PID()); got.Balanced {
			t.Error("xlb check says that a process of a released namespace is balanced")
		}
		if row := changeWorkload(t, balancer, node.Place, "join", unbalanced.PID()); row.State != "served" {
			t.Errorf("joined: got %+v, want it to be served", row)
		}
		requireServed(pod, "balanced", pod.Address)
	})
}

// A connection that begins as its namespace is released, or joined, is served: balanced or not. So it is as the daemon closes what it has there.
func TestNoConnectionIsLostAsItsPodIsReleased(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		node := harness.NewNode(t)
		pod, server := node.Pod(t), node.OtherHost(t)
		pod.AddAddress(t, podService.Addr().String()+"/32")
		unbalanced := pod.OriginAt(t, "unbalanced", podService)
		balancer := harness.Start(t, mode, harness.OneCluster(podService, originOf(t, server, "balanced", false)), node.Place)
		requireWorkloads(t, balancer, 1)
		clients := pod.Program(t, programs.LoadProgram, programs.LoadSpec{Address: podService.String(), Connections: 3, OneShot: true})
		awaitAnswers(t, []*harness.Process{clients}, 100)
		for range 3 {
			changeWorkload(t, balancer, node.Place, "release", unbalanced.PID())
			requireWorkloads(t, balancer, 0)
			changeWorkload(t, balancer, node.Place, "join", unbalanced.PID())
			requireWorkloads(t, balancer, 1)
		}
		var load programs.LoadReport
		clients.Finish(t, &load)
		requireClean(t, load)
	})
}

// A container runtime gives a pod's network namespace a name before a process runs there: the pod's first connection is balanced.
func TestANamedPodIsBalancedFromItsFirstConnectionOn(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		node := harness.NewNode(t)
		server, names := node.OtherHost(t), filepath.Join(t.TempDir(), "netns")
		config := harness.OneCluster(podService, originOf(t, server, "a", false))
		config.Arguments = []string{"--namespace-directory", names}
		balancer := harness.Start(t, mode, config, node.Place)
		requireWorkloads(t, balancer, 0)
		pod := node.Pod(t)
		unname := pod.Name(t, filepath.Join(names, "cni-1"))
		requireWorkloads(t, balancer, 1)
		const requests = 20
		load := runLoad(t, pod.Place, programs.LoadSpec{Address: podService.String(), Requests: requests, Asks: []programs.Ask{{Path: "/from"}}})
		requireEach(t, &load, pod.Address, requests, "a")
		if n := balancer.Metric(t, "xlb_verdicts_total", `verdict="connect_no_anchor"`); n != 0 {
			t.Errorf("connections that went unbalanced: got %v, want none", n)
		}
		unname()
		requireWorkloads(t, balancer, 0)
	})
}

// A network namespace that is left alone is so whether the daemon is there or not, and whatever an operator wants for those that are served.
func TestAReleasedPodIsNotRefusedWhenTheDaemonIsDown(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		node := harness.NewNode(t)
		pod, other, server := node.Pod(t), node.Pod(t), node.OtherHost(t)
		pod.AddAddress(t, podService.Addr().String()+"/32")
		unbalanced := pod.OriginAt(t, "stranger", podService)
		other.Greeter(t, "resident")
		config := harness.OneCluster(podService, originOf(t, server, "endpoint", false))
		config.Arguments = []string{"--when-down=fail"}
		b := harness.Start(t, mode, config, node.Place)
		requireWorkloads(t, b, 2)
		requireTaker(t, other.Place, podService, "it serves", "endpoint")
		changeWorkload(t, b, node.Place, "release", unbalanced.PID())
		requireTaker(t, pod.Place, podService, "it has been released", "stranger")
		b.Signal(t, syscall.SIGSTOP)
		awaitTaker(t, other.Place, podService, "it hangs", refused)
		requireTaker(t, pod.Place, podService, "it hangs", "stranger")
		b.Signal(t, syscall.SIGCONT)
		awaitTakerAfter(t, other.Place, podService, "it goes on", refused, "endpoint")
	})
}

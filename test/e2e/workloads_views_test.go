// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// explainedClient is what "xlb explain --pid" says of the client's network namespace in JSON, with its exit code.
func explainedClient(t *testing.T, b *harness.Balancer, at *harness.Place, pid int) (text string, code int) {
	t.Helper()
	output, code := at.Run(t, harness.Binary(t), "explain", "GET", "http://"+podService.String()+"/from", "--pid", strconv.Itoa(pid), "--admin", b.Admin.String(), "--output", "json").Printed(t, commandPatience)
	var answer struct {
		Workload *struct {
			ID       *uint32 `json:"id"`
			State    string  `json:"state"`
			Balanced bool    `json:"balanced"`
		} `json:"workload"`
		Winner int `json:"winner"`
	}
	// Where the exit code is not 0 an error follows the JSON.
	if err := json.NewDecoder(strings.NewReader(output)).Decode(&answer); err != nil || answer.Workload == nil || answer.Winner != 1 {
		t.Fatalf("explain: exit code %d, %v: %s", code, err, output)
	}
	id := "-"
	if answer.Workload.ID != nil {
		id = strconv.Itoa(int(*answer.Workload.ID))
	}
	return fmt.Sprintf("%s %s %v", id, answer.Workload.State, answer.Workload.Balanced), code
}

// All that shows a workload of a running daemon shows the same of it: its number, its state and its connections.
func TestAWorkloadIsShownAlikeEverywhere(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		node := harness.NewNode(t)
		pod, server := node.Pod(t), node.OtherHost(t)
		resident, _ := pod.Greeter(t, "resident")
		balancer := harness.Start(t, mode, harness.OneCluster(podService, originOf(t, server, "balanced", false)), node.Place)
		requireWorkloads(t, balancer, 1)
		const connections = 3
		load := pod.Program(t, programs.LoadProgram, programs.LoadSpec{Address: podService.String(), Connections: connections, Pause: 2 * time.Millisecond, Asks: []programs.Ask{{Path: "/from"}}})
		awaitAnswers(t, []*harness.Process{load}, 100)

		requireShown := func(state string, code int, balanced bool) {
			t.Helper()
			if got := balancer.Metric(t, "xlb_workload_info", `id="1"`, fmt.Sprintf("state=%q", state)); got != 1 {
				t.Errorf("xlb_workload_info with the state %s: got %v, want 1", state, got)
			}
			if got := balancer.Metric(t, "xlb_workload_connections", `id="1"`); got != connections {
				t.Errorf("xlb_workload_connections: got %v, want %d", got, connections)
			}
			if got := balancer.Metric(t, "xlb_workload_info"); got != 2 {
				t.Errorf("workloads with series: got %v, want that of the host and one more", got)
			}
			if got, exit := explainedClient(t, balancer, node.Place, resident.PID()); got != fmt.Sprintf("1 %s %v", state, balanced) || exit != code {
				t.Errorf("explained: got %s with exit code %d, want number 1, %s and %d", got, exit, state, code)
			}
			var rows []struct {
				ID   *uint32 `json:"workload_id"`
				Name string  `json:"workload"`
			}
			if err := json.Unmarshal([]byte(balancer.Get(t, "/xlb/connections")), &rows); err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				if row.ID == nil || *row.ID != 1 || row.Name == "" {
					t.Errorf("a connection of another workload: %+v", row)
				}
			}
			if len(rows) != connections {
				t.Errorf("%d connections, want %d", len(rows), connections)
			}
		}
		requireShown("served", 0, true)
		changeWorkload(t, balancer, node.Place, "release", resident.PID())
		requireShown("leaving", 1, false)
		changeWorkload(t, balancer, node.Place, "join", resident.PID())
		requireShown("served", 0, true)
		var report programs.LoadReport
		load.Finish(t, &report)
		requireClean(t, report)
	})
}

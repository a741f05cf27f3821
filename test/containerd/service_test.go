// SPDX-License-Identifier: Apache-2.0

package containerd

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
)

// servers are the names of the service's servers, each of which is in a pod.
var servers = []string{"a", "b"}

// service is one whose address nothing has but XLB's configuration.
type service struct {
	address netip.AddrPort
	config  harness.Config
}

// service makes one.
func (n *node) service(t *testing.T) *service {
	t.Helper()
	s := &service{address: harness.Service()}
	var endpoints []netip.AddrPort
	for _, name := range servers {
		endpoints = append(endpoints, n.serve(t, name))
	}
	s.config = harness.OneCluster(s.address, endpoints...)
	return s
}

// byNRI has containerd report its pods to the daemon.
const byNRI = "--nri=" + nriSocket

// balance runs XLB. The names of network namespaces are of no help to it.
func (n *node) balance(t *testing.T, mode harness.Mode, s *service, arguments ...string) *harness.Balancer {
	t.Helper()
	s.config.Arguments = append([]string{"--namespace-directory", ""}, arguments...)
	b := harness.Start(t, mode, s.config, n.Place, n.kubepods)
	if slices.Contains(arguments, byNRI) {
		requireConnected(t, b, true)
	}
	return b
}

// requireConnected waits until containerd reports its pods to the daemon, or does so no longer.
func requireConnected(t *testing.T, b *harness.Balancer, connected bool) {
	t.Helper()
	want := map[bool]float64{true: 1}[connected]
	harness.Eventually(t, patience, fmt.Sprintf("xlb_nri_connected is %v", want), func() bool { return b.Metric(t, "xlb_nri_connected") == want })
}

// row is what "xlb get workloads" says of a network namespace, in JSON.
type row struct {
	State     string `json:"state"`
	Why       string `json:"why"`
	Runtime   string `json:"runtime"`
	Container string `json:"container"`
	UID       string `json:"pod_uid"`
	Namespace string `json:"pod_namespace"`
	Pod       string `json:"pod"`
}

// rows are those of all network namespaces.
func (n *node) rows(t *testing.T, b *harness.Balancer) (rows []row) {
	t.Helper()
	output := n.Run(t, harness.Binary(t), "get", "workloads", "--admin", b.Admin.String(), "--output", "json").Output(t, patience)
	if err := json.Unmarshal([]byte(output), &rows); err != nil {
		t.Fatalf("xlb get workloads: %v: %s", err, output)
	}
	return rows
}

// isListed reports whether a pod is, by its name.
func (n *node) isListed(t *testing.T, b *harness.Balancer, p *pod) bool {
	t.Helper()
	return slices.ContainsFunc(n.rows(t, b), func(r row) bool { return r.Pod == p.name })
}

// requireRow waits until a pod is listed with all that containerd has reported of it, in that state.
func (n *node) requireRow(t *testing.T, b *harness.Balancer, p *pod, state, why string) {
	t.Helper()
	n.requireListed(t, b, row{State: state, Why: why, Runtime: "containerd", Container: p.sandbox, UID: p.uid, Namespace: namespace, Pod: p.name})
}

// requireListed waits until such a network namespace is listed.
func (n *node) requireListed(t *testing.T, b *harness.Balancer, want row) {
	t.Helper()
	await.Within(t, patience, func() string {
		rows := n.rows(t, b)
		if slices.Contains(rows, want) {
			return ""
		}
		return fmt.Sprintf("xlb get workloads: got %+v, want %+v among them", rows, want)
	})
}

// unbalanced counts the connections that were to be balanced and were not.
func unbalanced(t *testing.T, b *harness.Balancer) float64 {
	t.Helper()
	return b.Metric(t, "xlb_verdicts_total", `verdict="connect_no_anchor"`)
}

// info is the sample of xlb_workload_info that has all these labels. Empty: it is absent.
func info(t *testing.T, b *harness.Balancer, labels ...string) string {
	t.Helper()
	for line := range strings.Lines(b.Get(t, "/metrics")) {
		if strings.HasPrefix(line, "xlb_workload_info{") && !slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(line, l) }) {
			return line
		}
	}
	return ""
}

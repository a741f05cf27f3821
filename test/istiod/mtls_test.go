// SPDX-License-Identifier: Apache-2.0

package istiod

import (
	"encoding/json"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// Istio as it comes: with its own filters, and mutual TLS wherever both ends have a sidecar, and no server of secrets. An endpoint that expects TLS is never spoken to in plain
// text, and it can be seen why.
func TestEndpointsOfTheMeshAreLeftOut(t *testing.T) {
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, plain := harness.SameHost(t), newOrigin(t, "plain")
		mesh, touched := untouchable(t)
		c := startIstiod(t, place, emptyKubernetes(t), "testdata/mesh-mtls.yaml", true)
		c.configure(t, "mtls.yaml", map[string]string{"PLAIN": plain.port, "MESH": mesh})
		harness.Eventually(t, patience, "istiod has read its files", func() bool { return len(c.log.lines("Full push, new service")) > 0 })
		said := &log{}
		x := harness.Start(t, mode, c.bootstrap("xlb"), place)
		x.KeepStderr(said)
		w := &world{control: c, place: place, xlb: x}
		mixed := request{"GET", "mixed.default.svc.cluster.local", "/", ""}
		w.await(t, atXLB, mixed, func(r programs.Reply) bool { return r.Status == http.StatusOK })
		keep(t, x, "istiod-1.31-mtls")
		for _, reply := range ask(t, place, atXLB, times(50, mixed)...) {
			if reply.Status != http.StatusOK || reply.Identity != "plain" {
				t.Errorf("the plain endpoint alone serves: %d of %q", reply.Status, reply.Identity)
			}
		}
		for service, reason := range map[string]string{
			"meshed.default.svc.cluster.local": "tls", "grpc.default.svc.cluster.local": "http2",
		} {
			reply := ask(t, place, atXLB, request{"GET", service, "/", ""})[0]
			if reply.Status != http.StatusServiceUnavailable {
				t.Errorf("%s: %d %q", service, reply.Status, reply.Body)
			}
			cluster := "outbound|9080||" + service
			if n := x.Metric(t, "xlb_cluster_endpoints_left_out", `envoy_cluster_name="`+cluster+`"`, `reason="`+reason+`"`); n != 1 {
				t.Errorf("%s: %v endpoints left out by %s", service, n, reason)
			}
			if details := errorStates(t, x)[cluster]; details == "" {
				t.Errorf("/config_dump does not say why %s is not served", service)
			} else {
				t.Logf("%s: %s", service, details)
			}
		}
		if touched.Load() != 0 {
			t.Errorf("an endpoint that expects TLS was connected to %d times", touched.Load())
		}
		if refused := c.log.lines("ACK ERROR"); len(refused) > 0 {
			t.Errorf("istiod was told: %v", refused)
		}
		x.RequireFast(t, mode, 0.8)
	})
}

// untouchable is a server that counts connections.
func untouchable(t *testing.T) (port string, touched *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.82.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	touched = &atomic.Int64{}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			touched.Add(1)
			_ = c.Close()
		}
	}()
	_, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port, touched
}

// errorStates are the details that /config_dump has of clusters.
func errorStates(t *testing.T, x *harness.Balancer) map[string]string {
	t.Helper()
	var dump struct {
		Configs []struct {
			Dynamic []struct {
				Cluster struct{ Name string }    `json:"cluster"`
				State   struct{ Details string } `json:"error_state"`
			} `json:"dynamic_active_clusters"`
		} `json:"configs"`
	}
	if err := json.Unmarshal([]byte(x.Get(t, "/config_dump")), &dump); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, config := range dump.Configs {
		for _, c := range config.Dynamic {
			out[c.Cluster.Name] = c.State.Details
		}
	}
	return out
}

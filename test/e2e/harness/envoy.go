// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// The types of the resources that Envoy reads from files, so that it can
// reload them as XLB reloads its file.
const (
	listenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
	clusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
)

// EnvoyBinary is the path of an Envoy.
func EnvoyBinary(t testing.TB) string {
	t.Helper()
	name := os.Getenv("XLB_ENVOY")
	if name == "" {
		name = "envoy"
	}
	path, err := exec.LookPath(name)
	if err != nil && Envoy() {
		t.Fatalf("XLB_E2E_PEER=envoy: %v; name the binary in XLB_ENVOY", err)
	}
	if err != nil {
		return Command(t, name)
	}
	return path
}

func (b *Balancer) envoyFile(kind string) string { return filepath.Join(b.dir, kind+".json") }

func (b *Balancer) startEnvoy(t testing.TB, config Config) {
	t.Helper()
	b.envoy, b.listeners = true, config.Listeners
	b.writeEnvoy(t, config)
	source := func(kind string) object {
		return object{"resource_api_version": "V3", "path_config_source": object{"path": b.envoyFile(kind)}}
	}
	bootstrap := object{
		"node":              object{"id": "e2e", "cluster": "e2e"},
		"admin":             config.admin(b.Admin),
		"dynamic_resources": object{"lds_config": source("lds"), "cds_config": source("cds")},
	}
	maps.Copy(bootstrap, config.Fields)
	if own := config.ownCluster(); own != nil {
		// Envoy wants it before it asks for others.
		bootstrap["static_resources"] = object{"clusters": []any{own}}
	}
	b.replace(t, b.File(), toYAML(t, bootstrap))
	drain := strconv.Itoa(int(cmp.Or(config.Drain, time.Second).Seconds()))
	b.Process = b.place.Run(t, EnvoyBinary(t), "--config-path", b.File(),
		"--use-dynamic-base-id", "--concurrency", "2", "--log-level", "warning", "--drain-time-s", drain, "--drain-strategy", "immediate")
}

// ownCluster is that of the node itself; nil: there is none.
func (c Config) ownCluster() any {
	manager, _ := c.Fields["cluster_manager"].(object)
	for _, cluster := range c.clusters(true) {
		if name := cluster.(object)["name"]; name == manager["local_cluster_name"] {
			return cluster
		}
	}
	return nil
}

// writeEnvoy writes clusters first: a listener may need them.
func (b *Balancer) writeEnvoy(t testing.TB, config Config) {
	t.Helper()
	b.replace(t, b.envoyFile("cds"), envoyResources(t, clusterType, config.clusters(true)))
	b.replace(t, b.envoyFile("lds"), envoyResources(t, listenerType, config.listeners(true)))
}

func envoyResources(t testing.TB, kind string, resources []any) []byte {
	t.Helper()
	for _, r := range resources {
		r.(object)["@type"] = kind
	}
	content, err := json.Marshal(object{"resources": resources})
	if err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSpace(content)
}

const envoyMetrics = "/stats/prometheus"

// terminateEnvoy does what an operator of Envoy does for a graceful end: drain
// the listeners, and end the process once no request is in flight.
func (b *Balancer) terminateEnvoy(t testing.TB) {
	t.Helper()
	response, err := b.http.Post("http://"+b.Admin.String()+"/drain_listeners?graceful", "", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	go func() {
		// Ends with Envoy, which the test ends at the latest.
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for b.Alive() && !b.drained() {
			<-ticker.C
		}
		_ = b.cmd.Process.Signal(syscall.SIGTERM)
	}()
}

// drained tells whether Envoy listens no more and serves nothing.
func (b *Balancer) drained() bool {
	for _, l := range b.listeners {
		if b.place.accepts(l.Address) {
			return false
		}
	}
	text, err := b.get(envoyMetrics)
	if err != nil {
		return false
	}
	active, err := sumSamples(text, "envoy_http_downstream_rq_active", []string{"service_"})
	return err == nil && active == 0
}

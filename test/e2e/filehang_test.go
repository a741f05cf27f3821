// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
)

// silentFiles is how many files are read that give nothing. One after the other they would take some minutes.
const silentFiles = 32

// silent delivers clusters beside those that there are, whose endpoints are to come from pipes that nobody writes to.
func (f *inFiles) silent(name string) {
	f.Helper()
	all := []map[string]any{edsCluster(f, "shop", "shop"), edsCluster(f, "beacon", "beacon")}
	for i := range silentFiles {
		cluster := edsCluster(f, fmt.Sprintf("%s-%d", name, i), "none")
		path := f.path(fmt.Sprintf("%s-%d.yaml", name, i))
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			f.Fatal(err)
		}
		writer, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			f.Fatal(err)
		}
		f.Cleanup(func() { writer.Close() })
		cluster["eds_cluster_config"].(map[string]any)["eds_config"].(map[string]any)["path_config_source"] = map[string]any{"path": path}
		all = append(all, cluster)
	}
	f.move(f.path(clustersFile), resourcesOf(f.T, clusterType, all...))
}

// Files that take long to read hold up neither the bootstrap, nor other files, nor requests, nor the end.
func TestFilesThatHangHoldUpNothing(t *testing.T) {
	harness.OnlyXLB(t, "Envoy waits for a pipe without end")
	mode, place := harness.Modes(t)[0], harness.SameHost(t)
	f := newInFiles(t, place, harness.Service())
	f.balancer = harness.Start(t, mode, harness.Config{Fields: f.fields()}, place)

	f.silent("first")
	took := await.Since(func() {})
	fields := f.fields()
	fields["static_resources"] = map[string]any{"clusters": []any{
		map[string]any{"name": "fixed", "type": "STATIC", "connect_timeout": "1s", "load_assignment": assignmentOf("fixed", f.servers[1])},
	}}
	f.balancer.Replace(t, harness.Config{Fields: fields})
	f.awaitEndpoint("fixed", f.servers[1])
	t.Logf("the bootstrap: %v", took.Elapsed())
	f.move(f.path(endpointsFile), resourcesOf(t, assignmentType, assignmentOf("shop", f.servers[1])))
	f.awaitEndpoint("shop", f.servers[1])
	t.Logf("a file of endpoints: %v", took.Elapsed())

	f.silent("second")
	harness.Eventually(t, 2*await.Patience, "a file that hangs is read", func() bool { return f.balancer.HasOpen(t, f.path("second-0.yaml")) })
	took = await.Since(func() { f.balancer.Terminate(t) })
	if code := f.balancer.Wait(t, await.Patience); code != 0 {
		t.Errorf("ended with %d", code)
	}
	t.Logf("the end: %v", took.Elapsed())
}

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/xlb-project/xlb/internal/files"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// inFiles is a balancer under load that has its clusters, endpoints, listeners and routes from a file each. Besides it has the cluster "beacon",
// to which no requests go.
type inFiles struct {
	*testing.T
	dir      string
	place    *harness.Place
	balancer *harness.Balancer
	load     *harness.Process
	servers  []netip.AddrPort
	beacons  uint16
}

// The files that the requests depend on.
const (
	clustersFile  = "clusters.yaml"
	endpointsFile = "endpoints.yaml"
	listenersFile = "listeners.yaml"
	routesFile    = "routes.yaml"
	beaconFile    = "beacon.yaml"
)

func (f *inFiles) path(file string) string { return filepath.Join(f.dir, file) }

// source implements delivery.
func (f *inFiles) source(kind, name string) map[string]any {
	file := map[string]string{clusterType: clustersFile, assignmentType: endpointsFile, listenerType: listenersFile, routesType: routesFile}[kind]
	if kind == assignmentType && name == "beacon" {
		file = beaconFile
	}
	return map[string]any{"resource_api_version": "V3", "path_config_source": map[string]any{"path": f.path(file)}}
}

// fields implements delivery.
func (f *inFiles) fields() map[string]any {
	return map[string]any{
		"node": map[string]any{"id": "test", "cluster": "test"}, "static_resources": map[string]any{},
		"dynamic_resources": map[string]any{"cds_config": f.source(clusterType, ""), "lds_config": f.source(listenerType, "")},
	}
}

// deliver implements delivery: it moves a file of each kind into its place.
func (f *inFiles) deliver(t *testing.T, w world) {
	t.Helper()
	for _, kind := range []string{assignmentType, routesType, clusterType, listenerType} {
		files := map[string][]map[string]any{}
		for name, one := range w[kind] {
			path := f.source(kind, name)["path_config_source"].(map[string]any)["path"].(string)
			files[path] = append(files[path], one)
		}
		for path, all := range files {
			f.move(path, resourcesOf(t, kind, all...))
		}
	}
}

// resourcesOf is a DiscoveryResponse in YAML, with a line for each resource.
func resourcesOf(t *testing.T, kind string, all ...map[string]any) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("version_info: '1'\nresources:\n")
	for _, one := range all {
		typed := maps.Clone(one)
		typed["@type"] = kind
		line, err := json.Marshal(typed)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "- %s\n", line)
	}
	return text.String()
}

// move puts a file into its place, as a whole.
func (f *inFiles) move(path, text string) {
	f.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		f.Fatal(err)
	}
}

// settle returns when the balancer has looked at all that was moved before.
func (f *inFiles) settle() {
	f.Helper()
	f.beacons++
	at := netip.AddrPortFrom(f.servers[0].Addr(), 1000+f.beacons)
	f.move(f.path(beaconFile), resourcesOf(f.T, assignmentType, assignmentOf("beacon", at)))
	f.awaitEndpoint("beacon", at)
}

func (f *inFiles) awaitEndpoint(cluster string, at netip.AddrPort) {
	f.Helper()
	harness.Eventually(f, await.Patience, fmt.Sprintf("%s has the endpoint %v", cluster, at), func() bool {
		return strings.Contains(f.balancer.Get(f.T, "/clusters"), cluster+"::"+at.String())
	})
}

// newInFiles delivers files that lead from a service to the first of two servers.
func newInFiles(t *testing.T, place *harness.Place, service netip.AddrPort) *inFiles {
	t.Helper()
	f := &inFiles{T: t, dir: t.TempDir(), place: place}
	_, f.servers = origins(t, place, "a", "b")
	w := world{}
	w.put(assignmentType, "shop", assignmentOf("shop", f.servers[0]))
	w.put(assignmentType, "beacon", assignmentOf("beacon", f.servers[0]))
	w.put(clusterType, "shop", edsCluster(f, "shop", "shop"))
	w.put(clusterType, "beacon", edsCluster(f, "beacon", "beacon"))
	w.put(listenerType, "web", rdsListener(f, "web", service, "table"))
	w.put(routesType, "table", tableOf("table", routeTo("/beacon", "beacon", nil), routeTo("/", "shop", nil)))
	f.deliver(t, w)
	return f
}

// forFiles runs a test with XLB in each mode, and with Envoy. Each request of the load has to be answered by an endpoint.
func forFiles(t *testing.T, test func(f *inFiles)) {
	harness.Beside(t)
	place := harness.SameHost(t)
	run := func(t *testing.T, start func(harness.Config) *harness.Balancer) {
		service := harness.Service()
		f := newInFiles(t, place, service)
		f.balancer = start(harness.Config{Fields: f.fields()})
		f.load = place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: service.String(), Connections: 2})
		awaitRequests(t, f.load, 50)
		test(f)
		awaitRequests(t, f.load, 50)
		var final programs.LoadReport
		f.load.Finish(t, &final)
		requireClean(t, final)
	}
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		run(t, func(c harness.Config) *harness.Balancer { return harness.Start(t, mode, c, place) })
	})
	if !harness.Envoy() {
		t.Run("envoy", func(t *testing.T) {
			run(t, func(c harness.Config) *harness.Balancer { return harness.StartEnvoy(t, c, place) })
		})
	}
}

// What wrote an empty file has failed more often than not: a template that rendered nothing, a full disk. It is no list without resources.
func TestFilesWithoutADocumentChangeNothing(t *testing.T) {
	forFiles(t, func(f *inFiles) {
		for _, text := range []string{"", "# rendered from nothing\n", "null\n", "---\n", "  \n"} {
			for _, file := range []string{clustersFile, endpointsFile, listenersFile, routesFile} {
				f.move(f.path(file), text)
			}
			f.settle()
			awaitRequests(f.T, f.load, 20)
		}
	})
}

// A file of endpoints or routes with another name than is asked for leaves what there was.
func TestFilesThatHoldAnotherNameChangeNothing(t *testing.T) {
	forFiles(t, func(f *inFiles) {
		f.move(f.path(endpointsFile), resourcesOf(f.T, assignmentType, assignmentOf("store", f.servers[1])))
		f.move(f.path(routesFile), resourcesOf(f.T, routesType, tableOf("other")))
		f.settle()
		awaitRequests(f.T, f.load, 50)
		// The name that is asked for is taken again.
		f.move(f.path(endpointsFile), resourcesOf(f.T, assignmentType, assignmentOf("shop", f.servers[1])))
		f.awaitEndpoint("shop", f.servers[1])
	})
}

// A file that is written in its place is whole when its writer has closed it: its beginning may be valid, and mean something else. Envoy takes only files
// that are moved.
func TestFilesThatAreWrittenInTheirPlaceAreReadWhole(t *testing.T) {
	inPlace := []string{clustersFile, endpointsFile, listenersFile, routesFile}
	if testing.Short() {
		inPlace = inPlace[:1]
	}
	forFiles(t, func(f *inFiles) {
		for _, file := range inPlace {
			text, err := os.ReadFile(f.path(file))
			if err != nil {
				f.Fatal(err)
			}
			// No resources.
			f.writeSlowly(f.path(file), string(text), strings.Index(string(text), "- "))
		}
		text := resourcesOf(f.T, assignmentType, assignmentOf("shop", f.servers[1]))
		f.writeSlowly(f.path(endpointsFile), text, 0)
		if !f.balancer.IsEnvoy() {
			f.awaitEndpoint("shop", f.servers[1])
		}
	})
}

// writeSlowly writes a file in its place, and has it open for a while when the first bytes are written.
func (f *inFiles) writeSlowly(path, text string, first int) {
	f.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		f.Fatal(err)
	}
	defer file.Close()
	for i, part := range []string{text[:first], text[first:]} {
		if i > 0 {
			time.Sleep(2 * files.QuietTime)
		}
		if _, err := file.WriteString(part); err != nil {
			f.Fatal(err)
		}
	}
}

// The same for the bootstrap.
func TestBootstrapThatIsWrittenInItsPlaceIsReadWhole(t *testing.T) {
	harness.OnlyXLB(t, "Envoy reads its bootstrap once")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.SameHost(t)
		_, servers := origins(t, place, "a", "b")
		service := harness.Service()
		balancer := harness.Start(t, mode, harness.OneCluster(service, servers[0]), place)
		load := place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: service.String(), Connections: 2})
		awaitRequests(t, load, 50)
		text, route := routesLast(t, balancer.File(), servers[1])
		f := &inFiles{T: t, balancer: balancer}
		f.writeSlowly(balancer.File(), text, route)
		harness.Eventually(t, await.Patience, "requests come to the other endpoint", func() bool { return report(t, load).Served[0]["b"] > 0 })
		var final programs.LoadReport
		load.Finish(t, &final)
		requireClean(t, final)
	})
}

// routesLast is a bootstrap with another endpoint, and where its last route begins: without that it is valid, and answers 404.
func routesLast(t *testing.T, path string, endpoint netip.AddrPort) (text string, route int) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var whole struct {
		Admin  json.RawMessage `json:"admin"`
		Static struct {
			Clusters  []map[string]any `json:"clusters"`
			Listeners []struct {
				Name    string          `json:"name"`
				Address json.RawMessage `json:"address"`
			} `json:"listeners"`
		} `json:"static_resources"`
	}
	if err := yaml.Unmarshal(content, &whole); err != nil {
		t.Fatal(err)
	}
	cluster, listener := whole.Static.Clusters[0], whole.Static.Listeners[0]
	cluster["load_assignment"] = assignmentOf(cluster["name"].(string), endpoint)
	clusters, err := json.Marshal(whole.Static.Clusters)
	if err != nil {
		t.Fatal(err)
	}
	text = fmt.Sprintf(`admin: %s
static_resources:
  clusters: %s
  listeners:
  - name: %s
    address: %s
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: web
          http_filters:
          - {name: envoy.filters.http.router, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
          route_config:
            virtual_hosts:
            - name: all
              domains: ['*']
              routes:
              - {match: {prefix: /nothing}, route: {cluster: %[5]s}}
              - {match: {prefix: /}, route: {cluster: %[5]s}}
`, whole.Admin, clusters, listener.Name, listener.Address, cluster["name"])
	return text, strings.LastIndex(text, "- {match")
}

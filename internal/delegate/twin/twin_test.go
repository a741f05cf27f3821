// SPDX-License-Identifier: Apache-2.0

package twin

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// made makes a twin, and reads it.
func made(t *testing.T, text string) (*Twin, map[string]any) {
	t.Helper()
	twin, err := Make([]byte(text), "envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(twin.Bootstrap, &tree); err != nil {
		t.Fatal(err)
	}
	return twin, tree
}

// at follows keys, and indexes of lists.
func at(t *testing.T, tree any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch s := step.(type) {
		case string:
			tree = tree.(map[string]any)[s]
		case int:
			tree = tree.([]any)[s]
		}
	}
	return tree
}

func TestListenersAreAtSocketsOfTheDelegate(t *testing.T) {
	twin, tree := made(t, `
static_resources:
  listeners:
  - name: web
    address: {socket_address: {address: 0.0.0.0, port_value: 80}}
    additional_addresses: [{address: {socket_address: {address: "::", port_value: 80}}}]
    enable_reuse_port: true
    useOriginalDst: true
    bindToPort: false
    socket_options: [{level: 6, name: 1, int_value: 1}]
    freebind: true
    transparent: true
    tcp_fast_open_queue_length: 5
    per_connection_buffer_limit_bytes: 32768
    filter_chains: [{filters: [{name: a}]}]
  - address: {socket_address: {protocol: UDP, address: 0.0.0.0, port_value: 443}}
  - name: quic
    udpListenerConfig: {}
    address: {socket_address: {address: 0.0.0.0, port_value: 443}}
  - name: inside
    internalListener: {}
  - address: {pipe: {path: "@others"}}
`)
	want := []Listener{{"web", "own/l0.sock"}, {"", "own/l4.sock"}}
	if len(twin.Listeners) != 2 || twin.Listeners[0] != want[0] || twin.Listeners[1] != want[1] {
		t.Errorf("listeners %v, want %v", twin.Listeners, want)
	}
	list := at(t, tree, "static_resources", "listeners").([]any)
	if len(list) != 3 {
		t.Fatalf("%d listeners, want 3", len(list))
	}
	text, err := json.Marshal(list[0])
	const web = `{"address":{"pipe":{"path":"own/l0.sock"}},"filter_chains":[{"filters":[{"name":"a"}]}],"name":"web","per_connection_buffer_limit_bytes":32768}`
	if err != nil || string(text) != web {
		t.Errorf("listener %s, want %s", text, web)
	}
	if at(t, list[1], "internalListener") == nil || at(t, list[1], "address") != nil {
		t.Errorf("internal listener %v", list[1])
	}
	if len(twin.LeftOut) != 2 || !strings.HasPrefix(twin.LeftOut[0], "static_resources.listeners[1]: ") || !strings.HasPrefix(twin.LeftOut[1], "static_resources.listeners[2]: ") {
		t.Errorf("left out: %q", twin.LeftOut)
	}
}

func TestTheAdminAPIIsAtASocketOfTheDelegate(t *testing.T) {
	for _, text := range []string{"node: {id: a}", `
admin:
  address: {socket_address: {address: 0.0.0.0, port_value: 9901}}
  access_log: [{name: file, typed_config: {"@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog, path: /var/log/admin}}]
`} {
		twin, tree := made(t, text)
		got, err := json.Marshal(tree["admin"])
		const want = `{"address":{"pipe":{"path":"own/admin.sock"}}}`
		if err != nil || string(got) != want {
			t.Errorf("admin %s, want %s", got, want)
		}
		if len(twin.LeftOut) != 0 {
			t.Errorf("left out: %q", twin.LeftOut)
		}
	}
}

func TestWhatComesFromOthersIsRefused(t *testing.T) {
	const cluster = "static_resources: {clusters: [{name: a, "
	for _, row := range []struct{ text, path string }{
		{"dynamic_resources: {}", "dynamic_resources"},
		{"dynamicResources: {}", "dynamicResources"},
		{"hds_config: {}", "hds_config"},
		{"flagsPath: /x", "flagsPath"},
		{"layered_runtime: {layers: [{name: a, rtds_layer: {}}]}", "layered_runtime.layers[0].rtds_layer"},
		{"layered_runtime: {layers: [{name: a, diskLayer: {}}]}", "layered_runtime.layers[0].diskLayer"},
		{"cluster_manager: {load_stats_config: {}}", "cluster_manager.load_stats_config"},
		{cluster + "eds_cluster_config: {eds_config: {ads: {}}}}]}", "static_resources.clusters[0].eds_cluster_config.eds_config.ads"},
		{cluster + "edsClusterConfig: {edsConfig: {path: /x}}}]}", "static_resources.clusters[0].edsClusterConfig.edsConfig.path"},
		{cluster + "eds_cluster_config: {eds_config: {path_config_source: {path: /x}}}}]}", "static_resources.clusters[0].eds_cluster_config.eds_config.path_config_source"},
		{cluster + "x: {sds_config: {api_config_source: {}}}}]}", "static_resources.clusters[0].x.sds_config.api_config_source"},
		{cluster + "x: {rds: {configSource: {path: /x}}}}]}", "static_resources.clusters[0].x.rds.configSource.path"},
		{cluster + "x: {file_per_tap: {path_prefix: /x}}}]}", "static_resources.clusters[0].x.file_per_tap"},
		{cluster + "x: {filename: /nowhere/to/be/found}}]}", "static_resources.clusters[0].x.filename"},
		{cluster + "x: {filename: /dev/zero}}]}", "static_resources.clusters[0].x.filename"},
		{"- a", ""},
		{"", ""},
		{"a: b: c", ""},
	} {
		_, err := Make([]byte(row.text), "envoy.yaml")
		if err == nil || !strings.HasPrefix(err.Error(), "envoy.yaml: ") || !strings.Contains(err.Error(), row.path) {
			t.Errorf("%s: %v, want it refused at %s", row.text, err, row.path)
		}
	}
}

func TestFilesAreCopied(t *testing.T) {
	key, chain := filepath.Join(t.TempDir(), "key.pem"), filepath.Join(t.TempDir(), "chain.pem")
	for path, text := range map[string]string{key: "the key", chain: "the chain"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	twin, tree := made(t, `
static_resources:
  secrets:
  - tls_certificate: {certificate_chain: {filename: `+chain+`}, private_key: {filename: `+key+`}, watched_directory: {path: /x}}
  - validation_context: {trusted_ca: {filename: `+chain+`}}
`)
	secret := at(t, tree, "static_resources", "secrets", 0, "tls_certificate")
	if at(t, secret, "certificate_chain", "filename") != "files/0" || at(t, secret, "private_key", "filename") != "files/1" || at(t, secret, "watched_directory") != nil {
		t.Errorf("secret %v", secret)
	}
	if of := at(t, tree, "static_resources", "secrets", 1, "validation_context", "trusted_ca", "filename"); of != "files/0" {
		t.Errorf("a file that is named twice has the copy %v", of)
	}
	if len(twin.Files) != 2 || string(twin.Files[0].Data) != "the chain" || string(twin.Files[1].Data) != "the key" {
		t.Errorf("files %q", twin.Files)
	}
}

func TestVariablesOfTheDaemonAreInline(t *testing.T) {
	t.Setenv("XLB_TEST_SECRET", "of the daemon")
	_, tree := made(t, "a: {b: {environment_variable: XLB_TEST_SECRET}, c: {environmentVariable: XLB_TEST_UNSET}}")
	if got := at(t, tree, "a", "b", "inline_string"); got != "of the daemon" {
		t.Errorf("variable: %v", got)
	}
	if got := at(t, tree, "a", "c", "environmentVariable"); got != "XLB_TEST_UNSET" {
		t.Errorf("variable that is not set: %v", got)
	}
}

func TestLogsGoToTheDaemonOrNowhere(t *testing.T) {
	const file = `{"@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog, path: `
	twin, tree := made(t, `
a:
- `+file+`/var/log/envoy.log}
- `+file+`/dev/stdout}
- {"@type": type.googleapis.com/envoy.config.route.v3.Match, path: /shop}
- {event_log_path: /var/log/health}
- {eventLogPath: /dev/null}
`)
	for i, want := range []any{"/dev/null", "/dev/stdout", "/shop", nil, nil} {
		if got := at(t, tree, "a", i, "path"); got != want {
			t.Errorf("path %d: %v, want %v", i, got, want)
		}
	}
	if got := at(t, tree, "a", 3, "event_log_path"); got != "/dev/null" {
		t.Errorf("event log: %v", got)
	}
	if len(twin.LeftOut) != 2 {
		t.Errorf("left out: %q", twin.LeftOut)
	}
}

func TestWhatIsTheUsersStaysAsItIs(t *testing.T) {
	const text = `{"a":{"filter_metadata":{"x":{"ads":true,"filename":"/nowhere","path":"<&>"}},"big":"9007199254740993","number":15,"none":null,"bool":false,"json_format":{"filename":"%PATH%"}},"node":{"metadata":{"filename":"x"}}}`
	_, tree := made(t, text)
	delete(tree, "admin")
	got, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	var want any
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	same, err := json.Marshal(want)
	if err != nil || !bytes.Equal(got, same) {
		t.Errorf("twin %s, want %s", got, same)
	}
}

func TestEqualConfigurationsHaveEqualTwins(t *testing.T) {
	text, err := os.ReadFile("../../../examples/virtual-hosts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	first, _ := made(t, string(text))
	for range 20 {
		if next, _ := made(t, string(text)); !bytes.Equal(first.Bootstrap, next.Bootstrap) {
			t.Fatal("another twin")
		}
	}
}

// An alias is a value that stands in two places.
func TestAFileOfAnAliasIsCopiedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	twin, tree := made(t, "a: &x {filename: "+path+"}\nb: *x\n")
	if len(twin.Files) != 1 || at(t, tree, "a", "filename") != "files/0" || at(t, tree, "b", "filename") != "files/0" {
		t.Errorf("files %v, tree %v", twin.Files, tree)
	}
}

func TestFilesAreBoundedTogether(t *testing.T) {
	var text strings.Builder
	for i := range mostFiles/mostFile + 1 {
		path := filepath.Join(t.TempDir(), "large")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, mostFile); err != nil {
			t.Fatal(err)
		}
		text.WriteString(string(rune('a'+i)) + ": {filename: " + path + "}\n")
	}
	if _, err := Make([]byte(text.String()), "envoy.yaml"); err == nil || !strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("more than may be: %v", err)
	}
}

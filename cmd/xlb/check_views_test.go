// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// viewsIn writes a file of two views, "shop" with a bootstrap that is good and "blue" with this one, and says where it is.
func viewsIn(t *testing.T, blue string) string {
	t.Helper()
	good, err := os.ReadFile("testdata/explain.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"shop.yaml":  string(good),
		"blue.yaml":  strings.ReplaceAll(blue, "GOOD", string(good)),
		"views.yaml": "views:\n- {name: shop, config: shop.yaml, select: [{namespace: shop}]}\n- {name: blue, config: blue.yaml, select: [{netns: blue}]}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "views.yaml")
}

func TestCheckReadsTheBootstrapOfEachView(t *testing.T) {
	file := viewsIn(t, "GOOD")
	code, stdout, stderr := call(t, "check", "--views", file)
	shown := strings.Join(strings.Fields(stdout), " ")
	for _, row := range []string{"views ok " + file + ": 2 views", "view shop ok " + filepath.Dir(file) + "/shop.yaml: 2 listeners, ", "view blue ok " + filepath.Dir(file) + "/blue.yaml: 2 listeners, "} {
		if !strings.Contains(shown, row) {
			t.Errorf("no row %q in\n%s", row, stdout)
		}
	}
	if strings.Contains(stderr, "view") {
		t.Errorf("code %d, stderr: %s", code, stderr)
	}
}

func TestCheckRefusesTheBootstrapOfOneView(t *testing.T) {
	file := viewsIn(t, "GOOD\nadmin: {address: {socket_address: {address: 127.0.0.1, port_value: 9901}}}\n")
	code, stdout, stderr := call(t, "check", "--views", file)
	if code != exitRefused || !strings.Contains(stderr, "xlb: view blue: "+filepath.Dir(file)+"/blue.yaml: admin: not supported: the daemon has one admin API for all views") {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
	if !strings.Contains(stdout, "blue.yaml: 1 problem\n") || !strings.Contains(stdout, "shop.yaml: 2 listeners,") || strings.Contains(stderr, "view shop") {
		t.Errorf("stdout:\n%s\nstderr: %s", stdout, stderr)
	}
	code, stdout, _ = call(t, "check", "--views", file, "--output", "json")
	var r checkReport
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	if code != exitRefused || r.Config != nil || r.Views == nil || r.Views.Valid || len(r.Views.Views) != 2 {
		t.Fatalf("code %d: %s", code, stdout)
	}
	if shop, blue := r.Views.Views[0], r.Views.Views[1]; shop.Name != "shop" || !shop.Valid || shop.Listeners != 2 || blue.Name != "blue" || blue.Valid || len(blue.Problems) != 1 {
		t.Errorf("got %s", stdout)
	}
}

// The node of a template is a part of what its bootstrap is checked with: one that has a control plane needs a node.
func TestCheckReadsTheBootstrapOfATemplate(t *testing.T) {
	dir := filepath.Dir(viewsIn(t, "dynamic_resources: {ads_config: {api_type: GRPC, transport_api_version: V3, grpc_services: [{envoy_grpc: {cluster_name: none}}]}}\n"))
	for _, tt := range []struct{ config, want string }{
		{"shop.yaml", ""},
		{"blue.yaml", "xlb: view tenant: " + dir + "/blue.yaml: dynamic_resources.ads_config"},
	} {
		file := filepath.Join(dir, "template.yaml")
		text := "views: [{name: tenant, config: " + tt.config + `, select: [{namespace: "*"}], for_each: [namespace], node: {id: "{namespace}", cluster: c}}]`
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, stdout, stderr := call(t, "check", "--views", file)
		if !strings.Contains(stdout, "view tenant") || tt.want == "" && strings.Contains(stderr, "view") || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: stdout:\n%s\nstderr: %s", tt.config, stdout, stderr)
		}
	}
}

func TestCheckRefusesAFileOfViews(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"that names no bootstrap", "views: [{name: shop, select: [{namespace: shop}]}]", "views[0].config: "},
		{"that names a bootstrap which is not there", "views: [{name: shop, config: none.yaml, select: [{namespace: shop}]}]", "none.yaml: no such file or directory"},
	} {
		file := writeFile(t, "views.yaml", tt.text)
		code, stdout, stderr := call(t, "check", "--views", file)
		if code != exitRefused || !strings.Contains(stderr, tt.want) || !strings.Contains(stdout, ": 1 problem\n") {
			t.Errorf("%s: code %d, stdout:\n%s\nstderr: %s", tt.name, code, stdout, stderr)
		}
	}
}

func TestViewsThatAreRefusedDecideTheVerdict(t *testing.T) {
	file := viewsIn(t, "bogus: 1\n")
	_, stdout, _ := call(t, "check", "--config", "testdata/explain.yaml", "--views", file)
	if !strings.Contains(stdout, "\nverdict: ") || strings.Contains(stdout, "\nverdict: fast path") || strings.Contains(stdout, "\nverdict: slow path only") {
		t.Errorf("stdout:\n%s", stdout)
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/node"
)

func TestChoiceOfViews(t *testing.T) {
	dir := t.TempDir()
	write := func(name, selector string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte("views: [{name: shop, config: shop.yaml, select: ["+selector+"]}]"), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	byPod, byLabels, byCgroup, wrong := write("pod.yaml", "{namespace: shop}"), write("labels.yaml", "{labels: {app: web}}"), write("cgroup.yaml", "{cgroup: /shop}"), write("wrong.yaml", "{cgroup: shop}")
	for _, tt := range []struct {
		name, file, nri string
		// optional: there need be no container runtime.
		optional bool
		refused  string
	}{
		{"none", "", nriSocket, true, ""},
		{"by cgroup", byCgroup, "", true, ""},
		// Without a runtime the view would select no pod, which is worth a line.
		{"by pod", byPod, nriSocket, false, ""},
		{"by pod without a runtime", byPod, "", false, "view shop selects pods by their names or labels"},
		{"by labels", byLabels, nriSocket, false, ""},
		{"by labels without a runtime", byLabels, "", false, "view shop selects pods by their names or labels"},
		{"a wrong file", wrong, nriSocket, false, "views[0].select[0].cgroup"},
		{"no file", filepath.Join(dir, "missing.yaml"), nriSocket, false, "--views: read views"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := node.Options{OtherNamespaces: true, NRI: tt.nri, OptionalNRI: true}
			err := (&runFlags{views: tt.file}).chooseViews(&o)
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("got %v, want %q", err, tt.refused)
				}
				return
			}
			if err != nil || o.OptionalNRI != tt.optional || (o.Views == nil) != (tt.file == "") {
				t.Errorf("got %v, a runtime is optional %t, views %v", err, o.OptionalNRI, o.Views)
			}
		})
	}
}

// A view that would select no workload, since what it selects is not served, is refused at the start.
func TestViewsOfNamespacesThatAreNotServedAreRefused(t *testing.T) {
	const other, host, pods = "{netns: blue}", "{host: true}", "{namespace: shop}"
	tests := []struct {
		name, selector string
		options        node.Options
		refused        string
	}{
		{"another namespace", other, node.Options{OtherNamespaces: true}, ""},
		{"another namespace, and not the daemon's own", other, node.Options{OtherNamespaces: true, NoOwnNamespace: true}, ""},
		{"another namespace that is not served", other, node.Options{}, "view a selects other network namespaces"},
		{"the host's", host, node.Options{}, ""},
		{"the host's beside others", host, node.Options{OtherNamespaces: true}, ""},
		{"the host's, which is not served", host, node.Options{OtherNamespaces: true, NoOwnNamespace: true}, "view a selects the host's own network namespace"},
		{"pods", pods, node.Options{OtherNamespaces: true, NRI: nriSocket}, ""},
		{"pods without a runtime", pods, node.Options{OtherNamespaces: true}, "view a selects pods by their names or labels"},
		{"pods that are not served", pods, node.Options{}, "view a selects other network namespaces"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "views.yaml")
			if err := os.WriteFile(file, []byte("views: [{name: a, config: a.yaml, select: ["+tt.selector+"]}]"), 0o600); err != nil {
				t.Fatal(err)
			}
			err := (&runFlags{views: file}).chooseViews(&tt.options)
			if tt.refused == "" && err != nil || tt.refused != "" && (err == nil || !strings.Contains(err.Error(), tt.refused)) {
				t.Errorf("got %v, want %q", err, tt.refused)
			}
		})
	}
}

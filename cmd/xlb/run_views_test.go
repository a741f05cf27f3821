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
	byPod, byCgroup, wrong := write("pod.yaml", "{namespace: shop}"), write("cgroup.yaml", "{cgroup: /shop}"), write("wrong.yaml", "{cgroup: shop}")
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
		{"by pod without a runtime", byPod, "", false, "view shop selects pods by their names"},
		{"a wrong file", wrong, nriSocket, false, "views[0].select[0].cgroup"},
		{"no file", filepath.Join(dir, "missing.yaml"), nriSocket, false, "--views: read views"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := node.Options{NRI: tt.nri, OptionalNRI: true}
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

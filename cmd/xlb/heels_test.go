// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHeelsRefusals(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	for file, text := range map[string]string{
		good: "kind: heels\ninterfaces: [none0]\nclient: { vips: [{ vip: 10.0.0.100:80, backends: [10.0.2.0/24] }] }\n",
		bad:  "kind: heels\ninterfaces: [none0]\nclient: { vips: [{ vip: 10.0.0.100, backends: [10.0.2.0/24] }] }\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no configuration", []string{"run"}, "xlb: --config: required"},
		{"no file", []string{"run", "--config", filepath.Join(dir, "none")}, "no such file"},
		{"bad file", []string{"run", "--config", bad}, "client.vips[0].vip: want an address with a port"},
		{"log level", []string{"run", "--config", good, "--log-level", "loud"}, "not a level"},
		{"pins on another file system", []string{"run", "--config", good, "--pin", dir}, "not on a BPF file system; mount one"},
		{"check without configuration", []string{"check"}, "--config: required"},
		{"check of an interface that is not there", []string{"check", "--config", good, "--pin", dir}, "interface none0: route ip+net: no such network interface; name an interface"},
		{"status of nobody", []string{"status", "--pin", dir}, "no HEELS agent has left anything here"},
		{"conns of nobody", []string{"conns", "--pin", dir}, "no HEELS agent has left anything here"},
		{"probe of nothing", []string{"probe", "x", "--pin", dir}, "want an address with a port"},
		{"drain of an unknown role", []string{"drain", "both", "--pin", dir}, "want client or server"},
		{"drain of nobody", []string{"drain", "client", "--pin", dir}, "no HEELS agent has left anything here"},
		{"detach of nobody", []string{"detach", "--pin", dir}, "no HEELS agent has left anything here"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, _, stderr := call(t, append([]string{"heels"}, tt.args...)...)
			if code != exitRefused || !strings.Contains(stderr, tt.want) {
				t.Errorf("code %d, stderr %q, want %q", code, stderr, tt.want)
			}
		})
	}
}

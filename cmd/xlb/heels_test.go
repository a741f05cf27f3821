// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/heels/check"
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

// What the check finds missing is said on both outputs, and by the exit code.
func TestHeelsCheckNamesWhoHasTheLock(t *testing.T) {
	root := t.TempDir()
	if err := unix.Mount("bpf", root, "bpf", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	pin, file := filepath.Join(root, "pins"), filepath.Join(t.TempDir(), "heels.yaml")
	text := "kind: heels\ninterfaces: [lo]\nclient: { vips: [{ vip: 10.0.0.100:80, backends: [10.0.2.0/24] }] }\n"
	if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Mkdir(pin, 0o700)); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(pin)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	who := fmt.Sprintf("%s is locked by process %d (xlb.test)", pin, os.Getpid())
	code, stdout, stderr := call(t, "heels", "check", "--config", file, "--pin", pin, "--output", "json")
	var list []check.Finding
	if err := json.Unmarshal([]byte(stdout), &list); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(list, func(f check.Finding) bool { return f.Name == "lock" })
	if at < 0 || list[at].Status != check.Missing || !strings.Contains(list[at].Detail, who) || list[at].Remedy == "" {
		t.Errorf("findings %+v, want one that says %q", list, who)
	}
	if code != exitRefused || !strings.Contains(stderr, "lock: "+who) {
		t.Errorf("code %d, stderr %q, want %q", code, stderr, who)
	}
}

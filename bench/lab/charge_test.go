// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestUnifiedChargeReadsKernelAndSockets(t *testing.T) {
	for _, tt := range []struct {
		name, stat   string
		kernel, sock int64
		fails        bool
	}{
		{name: "both", stat: "anon 7\nkernel 4096\nkernel_stack 16\nsock 512\nshmem 3\n", kernel: 4096, sock: 512},
		{name: "nothing charged", stat: "kernel 0\nsock 0\n"},
		{name: "an older kernel", stat: "anon 7\nkernel_stack 16\nsock 512\n", fails: true},
		{name: "no size", stat: "kernel much\n", fails: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "memory.stat"), []byte(tt.stat), 0o600); err != nil {
				t.Fatal(err)
			}
			kernel, sock, err := Charge{dir: dir, unified: true}.Read()
			if (err != nil) != tt.fails || kernel != tt.kernel || sock != tt.sock {
				t.Errorf("got %d, %d, %v, want %d, %d, fails: %t", kernel, sock, err, tt.kernel, tt.sock, tt.fails)
			}
		})
	}
}

func TestUnifiedChargeNeedsTheController(t *testing.T) {
	parent := t.TempDir()
	cgroup := filepath.Join(parent, "balancer")
	for _, controllers := range []string{"", "cpu pids\n"} {
		if err := os.WriteFile(filepath.Join(parent, "cgroup.controllers"), []byte(controllers), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := newUnifiedCharge(cgroup)
		if err != nil || c.Reads() {
			t.Errorf("controllers %q: got %+v, %v, want one that is not known", controllers, c, err)
		}
		if kernel, sock, err := c.Read(); kernel != 0 || sock != 0 || err != nil {
			t.Errorf("controllers %q: read %d, %d, %v, want nothing", controllers, kernel, sock, err)
		}
	}
	if _, err := os.Stat(filepath.Join(parent, "cgroup.subtree_control")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a controller was enabled that is not there: %v", err)
	}
}

func TestProcessesOfAUnifiedChargeStartWhereTheyAre(t *testing.T) {
	if path, args := (Charge{dir: "/cgroup", unified: true}).Within("xlb", "run"); path != "xlb" || len(args) != 1 {
		t.Errorf("v2: got %s %q, want the command alone", path, args)
	}
	if path, args := (Charge{dir: "/cgroup"}).Within("xlb", "run"); path == "xlb" || args[len(args)-1] != "run" {
		t.Errorf("v1: got %s %q, want a shell that enters the cgroup first", path, args)
	}
}

// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// kernelTypes is where the kernel describes its types, tracepoints among them.
const kernelTypes = "/sys/kernel/btf/vmlinux"

// OnOlderKernel returns a command line that runs another in a mount namespace of its own, in which
// the kernel has no tracepoint of that name: the description of its types has another in its place.
func OnOlderKernel(t testing.TB, tracepoint string, argv []string) []string {
	t.Helper()
	types, err := os.ReadFile(kernelTypes)
	if err != nil {
		t.Fatal(err)
	}
	name := []byte("\x00btf_trace_" + tracepoint + "\x00")
	if n := bytes.Count(types, name); n != 1 {
		t.Fatalf("%s has tracepoint %s %d times, want once", kernelTypes, tracepoint, n)
	}
	other := bytes.Clone(name)
	other[len(other)-2] = '_'
	file := filepath.Join(t.TempDir(), "vmlinux")
	if err := os.WriteFile(file, bytes.Replace(types, name, other, 1), 0o644); err != nil {
		t.Fatal(err)
	}
	const cover = `mount --bind "$1" "$2" && shift 2 && exec "$@"`
	return append([]string{Command(t, "unshare"), "--mount", "sh", "-c", cover, "sh", file, kernelTypes}, argv...)
}

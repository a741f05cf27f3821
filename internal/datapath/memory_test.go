// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// lockedByMap is what the kernel says that the maps take of which this process has descriptors, in bytes, by their numbers (proc(5): fdinfo).
func lockedByMap(t *testing.T) map[string]int64 {
	t.Helper()
	files, err := filepath.Glob("/proc/self/fdinfo/*")
	if err != nil {
		t.Fatal(err)
	}
	locked := map[string]int64{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the descriptor that has listed them
		}
		fields := map[string]string{}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			fields[name] = strings.TrimSpace(value)
		}
		if n, err := strconv.ParseInt(fields["memlock"], 10, 64); err == nil && fields["map_id"] != "" {
			locked[fields["map_id"]] = n
		}
	}
	return locked
}

// What a daemon takes whatever it serves is compared with one sidecar: docs/limits.md has the figure.
func TestMapsOfASmallConfigurationTakeLittleMemory(t *testing.T) {
	for name, fast := range map[string]bool{"fast path": true, "no fast path": false} {
		t.Run(name, func(t *testing.T) {
			const bound = 18 << 20
			before := lockedByMap(t)
			d, err := Load(Options{FastPath: fast})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { must(t, d.Close()) })
			// A small configuration needs no more than one page of each.
			for _, p := range d.pages {
				must(t, p.Hold(0, 1))
			}
			info, err := d.objects.Vips.Info()
			must(t, err)
			id, _ := info.ID()
			locked := lockedByMap(t)
			if locked[fmt.Sprint(id)] > int64(20*d.objects.Vips.MaxEntries()) {
				t.Skip("needs Linux 6.4: before it, the kernel counts entries of hashes that are not there")
			}
			var sum int64
			for id, n := range locked {
				if _, old := before[id]; !old {
					sum += n
				}
			}
			if sum == 0 || sum > bound {
				t.Errorf("the maps take %d bytes, want at most %d", sum, bound)
			}
		})
	}
}

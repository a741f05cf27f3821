// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryLimitIsTheSmallestOnTheWayUp(t *testing.T) {
	const v1, v2 = "8:cpu:/other\n7:memory,hugetlb:/a/b\n0::/\n", "0::/a/b\n"
	for _, tt := range []struct {
		name, cgroup string
		files        map[string]string
		want         uint64
		at           string
	}{
		{"none", v2, nil, math.MaxUint64, ""},
		{"version 2", v2, map[string]string{"two/a/b/memory.max": "max\n", "two/a/memory.max": "1000\n", "two/memory.max": "2000\n"}, 1000, "two/a/memory.max"},
		{"version 1", v1, map[string]string{"one/a/b/memory.limit_in_bytes": "500\n", "one/memory.limit_in_bytes": "9223372036854771712\n", "two/a/memory.max": "1\n"}, 500, "one/a/b/memory.limit_in_bytes"},
		{"of others", v2, map[string]string{"two/c/memory.max": "1\n"}, math.MaxUint64, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) string {
				t.Helper()
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				return path
			}
			mounts := write("mountinfo", fmt.Sprintf("40 31 0:37 / %[1]s/cpu rw - cgroup cgroup rw,cpu\n41 31 0:38 / %[1]s/one rw - cgroup cgroup rw,hugetlb,memory\n42 31 0:39 / %[1]s/two rw - cgroup2 none rw\n", dir))
			for name, text := range tt.files {
				write(name, text)
			}
			got, at, err := leastLimit(mounts, write("cgroup", tt.cgroup))
			if want := filepath.Join(dir, tt.at); err != nil || got != tt.want || tt.at != "" && at != want {
				t.Errorf("got %d in %s, %v, want %d in %s", got, at, err, tt.want, want)
			}
		})
	}
}

func TestMemoryIsJudged(t *testing.T) {
	if r := judgeMemory(math.MaxUint64, ""); r.Status != OK {
		t.Errorf("no limit: %+v", r)
	}
	want := Result{Status: Degraded, Detail: "64 MiB in /cg/memory.max: the kernel may kill the daemon without a word, at its start or later", Remedy: "set it to 128 MiB or more (MemoryMax= in the unit)"}
	if r := judgeMemory(64<<20, "/cg/memory.max"); r != want {
		t.Errorf("got %+v, want %+v", r, want)
	}
}

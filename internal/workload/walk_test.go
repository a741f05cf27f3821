// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/netns"
)

// nest makes so many directories one below the other, with long names, and returns the last one. They go with the test.
func nest(t *testing.T, dir string, levels int) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	must(t, err)
	t.Cleanup(func() { root.Close() })
	name := strings.Repeat("n", 250)
	for range levels {
		above := root
		must(t, above.Mkdir(name, 0o755))
		// Cleanups run in reverse: the deepest goes first.
		t.Cleanup(func() {
			if err := above.Remove(name); err != nil {
				t.Error(err)
			}
		})
		root, err = above.OpenRoot(name)
		must(t, err)
		t.Cleanup(func() { root.Close() })
	}
	return root
}

func TestProcessesAreFoundBelowAPathThatIsTooLong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		levels int
		want   string
	}{{maxLevels, ""}, {maxLevels + 1, errTooDeep.Error()}} {
		t.Run(fmt.Sprint(tt.levels), func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.start(30, 300, "pod")
			m.start(40, 400, "deep pod")
			// The other directories are found in any order.
			for i := range 3 {
				m.write(filepath.Join(m.cgroup, fmt.Sprint("beside", i), "cgroup.procs"), "30\n")
			}
			deep := nest(t, m.cgroup, tt.levels)
			must(t, deep.WriteFile("cgroup.procs", []byte("40\n"), 0o644))
			t.Cleanup(func() { must(t, deep.Remove("cgroup.procs")) })
			got, err := m.find()
			want := map[netns.Inode]int{m.inode("pod"): 30}
			if tt.want == "" {
				want[m.inode("deep pod")] = 40
			}
			if diff := cmp.Diff(want, got.oldest); diff != "" {
				t.Errorf("oldest processes (-want +got):\n%s", diff)
			}
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if err != nil && (isIncomplete(err) || len(err.Error()) > 2*maxShown) {
				t.Errorf("incomplete: %v; %d bytes: %v", isIncomplete(err), len(err.Error()), err)
			}
		})
	}
}

func TestManyFailuresAreCounted(t *testing.T) {
	t.Parallel()
	var f failures
	for i := range 100 {
		f.add(fmt.Errorf("failure %d", i))
	}
	f.add(fmt.Errorf("open: %w", unix.EMFILE))
	f.add(fmt.Errorf("open: %w", unix.EMFILE))
	if err := f.err(); !isIncomplete(err) || !strings.Contains(err.Error(), "and 97 more") || strings.Count(err.Error(), "\n") != maxNamed+1 {
		t.Errorf("got %v, want %d failures, one shortage, and how many more", err, maxNamed)
	}
	must(t, (&failures{}).err())
}

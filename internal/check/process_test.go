// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestCgroupOfAProcess(t *testing.T) {
	mount := t.TempDir()
	if err := os.MkdirAll(filepath.Join(mount, "shop/web.service"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"version 2 alone", "0::/shop/web.service\n", "shop/web.service"},
		{"the root", "0::/\n", "."},
		{"both versions", "7:memory:/other\n1:name=systemd:/shop\n0::/shop\n", "shop"},
		{"version 1 alone", "7:memory:/shop\n", ""},
		{"deleted", "0::/shop/old (deleted)\n", ""},
		{"outside of this namespace", "0::/../shop\n", ""},
	} {
		want := ""
		if tt.want != "" {
			want = filepath.Join(mount, tt.want)
		}
		if got := cgroupBelow(mount, tt.text); got != want {
			t.Errorf("%s: got %q, want %q", tt.name, got, want)
		}
	}
}

func TestAncestorsEndAtTheMount(t *testing.T) {
	p := &Process{Mount: "/sys/fs/cgroup", Cgroup: "/sys/fs/cgroup/shop/web"}
	if got, want := p.Ancestors(), []string{"/sys/fs/cgroup/shop/web", "/sys/fs/cgroup/shop", "/sys/fs/cgroup"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := (&Process{Mount: "/sys/fs/cgroup"}).Ancestors(); len(got) != 0 {
		t.Errorf("of no cgroup: got %v", got)
	}
}

func TestProcessThatIsNotThere(t *testing.T) {
	// Above the highest that a kernel gives (pid_max).
	if _, err := FindProcess(1<<22 + 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that there is none", err)
	}
}

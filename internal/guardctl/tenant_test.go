// SPDX-License-Identifier: Apache-2.0

package guardctl

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/internal/shares"
)

// A user who makes cgroups below one of his own is one tenant still.
func TestTenantIsWhoCannotMakeMoreOfHimself(t *testing.T) {
	mount, err := check.CgroupMount()
	if err != nil || os.Getuid() != 0 {
		t.Skip("root makes cgroups of version 2")
	}
	top := fmt.Sprintf("xlb-tenant-%d", os.Getpid())
	number := map[string]uint64{}
	for _, dir := range []string{"", "service", "user", "user/session", "user/session/app"} {
		path := filepath.Join(mount, top, dir)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Remove(path) })
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			t.Fatal(err)
		}
		number[dir] = st.Ino
	}
	if err := os.Chown(filepath.Join(mount, top, "user"), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{"": "", "service": "/service", "user": "/user", "user/session": "/user", "user/session/app": "/user"} {
		got, err := tenantOf(mount, shares.Path{number[""], number[dir]})
		if err != nil || got != "/"+top+want {
			t.Errorf("cgroup %q: got %q, %v, want %q", dir, got, err, "/"+top+want)
		}
	}
	if got, err := tenantOf(mount, shares.Path{1 << 40}); err == nil || got != "" {
		t.Errorf("cgroup that there is not: got %q, %v", got, err)
	}
}

func TestRootCgroupIsATenantToo(t *testing.T) {
	if got, err := tenantOf("/nonexistent", shares.Path{}); err != nil || got != "/" {
		t.Errorf("got %q, %v, want \"/\"", got, err)
	}
}

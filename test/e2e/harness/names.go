// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Name gives the place's network namespace a name, as container runtimes and "ip netns" do: it is mounted at that file, until unname is called or the test ends.
func (p *Place) Name(t testing.TB, file string) (unname func()) {
	t.Helper()
	err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o600))
	if err == nil {
		err = unix.Mount(fmt.Sprintf("/proc/self/fd/%d", int(p.ns)), file, "", unix.MS_BIND, "")
	}
	if err != nil {
		t.Fatalf("name a network namespace: %v", err)
	}
	unname = sync.OnceFunc(func() {
		if err := errors.Join(unix.Unmount(file, unix.MNT_DETACH), os.Remove(file)); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(unname)
	return unname
}

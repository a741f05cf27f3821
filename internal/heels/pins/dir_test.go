// SPDX-License-Identifier: Apache-2.0

package pins

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/heels/heelstest"
)

func TestPinDirectoriesThatAreRefused(t *testing.T) {
	root := heelstest.BPFFS(t)
	open, foreign := filepath.Join(root, "open"), filepath.Join(root, "foreign")
	for _, dir := range []string{open, foreign} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(open, 0o777), os.Chown(foreign, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	plain := t.TempDir()
	for _, tt := range []struct{ name, dir, want string }{
		{"no BPF file system", filepath.Join(plain, "pins"), "not on a BPF file system; mount one: mount -t bpf bpf " + plain},
		{"a parent that is not there", filepath.Join(root, "a", "b"), "cannot be made in " + filepath.Join(root, "a") + ": no such file or directory; make that first"},
		{"others may write", open, "other users may change it (mode 0777 of user 0)"},
		{"it is another's", foreign, "other users may change it (mode 0700 of user 65534)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := Prepare(tt.dir)
			if err == nil {
				err = CheckOwner(tt.dir)
			}
			var pin *Error
			if !errors.As(err, &pin) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if left, err := os.ReadDir(plain); err != nil || len(left) > 0 {
		t.Errorf("a refusal has left %v, %v", left, err)
	}
	if err := unix.Mount("", root, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if err := Prepare(filepath.Join(root, "late")); err == nil || !strings.Contains(err.Error(), "cannot be made: read-only file system; run as root on a BPF file system that is mounted read-write") {
		t.Errorf("on a file system that is read-only: %v", err)
	}
}

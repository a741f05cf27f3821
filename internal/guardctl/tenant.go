// SPDX-License-Identifier: Apache-2.0

package guardctl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/shares"
)

// kernfsHandle is FILEID_KERNFS: a file of a cgroup hierarchy by its number.
const kernfsHandle = 0xfe

// errNoTenant says that a cgroup is not in the hierarchy: it was removed, or this mount does not show it.
var errNoTenant = errors.New("no such cgroup")

// tenantOf is whom a client's cgroups belong to, for those who count tenants and not what one of them
// has made: the path of the innermost below the mount of the hierarchy, or, where a user other than root
// owns that or a directory above it, such a directory: who owns it makes as many below as he likes.
// It needs CAP_DAC_READ_SEARCH.
func tenantOf(mount string, path shares.Path) (string, error) {
	var innermost uint64
	for _, cgroup := range path {
		if cgroup != 0 {
			innermost = cgroup
		}
	}
	if innermost == 0 {
		return "/", nil // the root's own
	}
	below, err := pathOf(mount, innermost)
	if err != nil {
		return "", err
	}
	return ownerOf(mount, below), nil
}

// pathOf is the path of a cgroup below the mount.
func pathOf(mount string, cgroup uint64) (string, error) {
	root, err := unix.Open(mount, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("open %s: %w", mount, err)
	}
	defer unix.Close(root)
	handle := unix.NewFileHandle(kernfsHandle, binary.NativeEndian.AppendUint64(nil, cgroup))
	fd, err := unix.OpenByHandleAt(root, handle, unix.O_PATH|unix.O_CLOEXEC)
	if err != nil {
		return "", fmt.Errorf("open cgroup %d: %w", cgroup, err)
	}
	defer unix.Close(fd)
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return "", err
	}
	below, err := filepath.Rel(mount, path)
	if err != nil || strings.HasPrefix(below, "..") {
		return "", fmt.Errorf("%w: number %d", errNoTenant, cgroup)
	}
	return below, nil
}

// ownerOf cuts a path below mount behind the first directory that is not root's.
func ownerOf(mount, below string) string {
	parts := strings.Split(below, "/")
	for i := range parts {
		var st unix.Stat_t
		at := filepath.Join(parts[:i+1]...)
		if err := unix.Stat(filepath.Join(mount, at), &st); err == nil && st.Uid != 0 {
			return "/" + at
		}
	}
	return filepath.Join("/", below)
}

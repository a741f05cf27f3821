// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
)

// The daemon learns of a connection which cgroups its client is in, the outermost first, and no more of them
// than it tells apart.
func TestConnectionsSayWhoseTheyAre(t *testing.T) {
	door := newDoor(t, "127.80.77.5:8080")
	d := door.daemon(t, "daemon", Options{})
	setLife(d, 0, false)
	root, own := ownCgroup(t)
	outer := filepath.Join(root, fmt.Sprintf("xlb-tenant-test-%d", os.Getpid()))
	all := []string{outer, filepath.Join(outer, "b"), filepath.Join(outer, "b", "c"), filepath.Join(outer, "b", "c", "d")}
	enter := func(cgroup string) {
		must(t, os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), []byte("0"), 0))
	}
	var ids []uint64
	for _, path := range all {
		must(t, os.Mkdir(path, 0o755))
		t.Cleanup(func() { must(t, os.Remove(path)) })
		var st unix.Stat_t
		must(t, unix.Stat(path, &st))
		ids = append(ids, st.Ino)
	}
	t.Cleanup(func() { enter(own) })
	for _, a := range []attachment{{d.programs.Sockops, ebpf.AttachCGroupSockOps, ""}, {d.programs.Connect4, ebpf.AttachCGroupInet4Connect, ""}} {
		l, err := link.AttachCgroup(link.CgroupOptions{Path: outer, Attach: a.hook, Program: a.program})
		must(t, err)
		t.Cleanup(func() { must(t, l.Close()) })
	}
	// Cgroups around the test's, which a container or scripts/isolate has made.
	var around []uint64
	for depth, path := range all {
		enter(path)
		c, err := net.DialTimeout("tcp4", door.service.String(), 10*time.Second)
		must(t, err)
		client := c.LocalAddr().(*net.TCPAddr).AddrPort()
		key := maps.ConnKey{Addr: client.Addr().As16(), Port: client.Port(), AnchorPort: c.RemoteAddr().(*net.TCPAddr).AddrPort().Port(), Netns: netnsCookie(t)}
		record, ok := d.Sockets.TakeConn(key)
		must(t, c.Close())
		if i := slices.Index(record.Tenant[:], ids[0]); depth == 0 && i > 0 {
			around = slices.Clone(record.Tenant[:i])
		}
		var want [3]uint64
		copy(want[:], slices.Concat(around, ids[:depth+1]))
		if !ok || record.Tenant != want {
			t.Errorf("in %s: record %t, tenant %d, want %d", path, ok, record.Tenant, want)
		}
	}
}

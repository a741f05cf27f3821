// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
)

// What sockets are to receive next is kept as long as they are in a map.
func TestSequencesOfLiveSocketsAreKept(t *testing.T) {
	kernel, err := Probe()
	must(t, err)
	d, err := Load(Options{FastPath: true, Kernel: kernel})
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	client, _ := tcpFile(t)
	server, _ := tcpFile(t)
	cookies := make([]uint64, 2)
	for i, fd := range []uintptr{client.Fd(), server.Fd()} {
		cookies[i], err = unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_COOKIE)
		must(t, err)
	}
	must(t, d.objects.Psocks.Put(cookies[0], uint64(client.Fd())))
	must(t, d.objects.Ssocks.Put(uint32(7), uint64(server.Fd())))
	const closed = 1 << 40
	for _, cookie := range append(slices.Clone(cookies), closed, closed+1) {
		must(t, d.objects.ReceiveSequences.Put(maps.CookieKeyOf(cookie), uint64(1)))
	}
	for _, want := range []int{2, 0} {
		if n, err := d.Sockets.ForgetSequences(); err != nil || n != want {
			t.Errorf("forgotten: got %d, %v, want %d", n, err, want)
		}
	}
	var next uint64
	for _, cookie := range cookies {
		must(t, d.objects.ReceiveSequences.Lookup(maps.CookieKeyOf(cookie), &next))
	}
	must(t, client.Close())
	must(t, server.Close())
	if n, err := d.Sockets.ForgetSequences(); err != nil || n != 2 {
		t.Errorf("forgotten when both had closed: got %d, %v, want 2", n, err)
	}
}

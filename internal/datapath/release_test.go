// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
)

// A server that closes has read some of its last request, or certainly none.
func TestCloseTellsWhetherTheRequestWasRead(t *testing.T) {
	const request = "GET / HTTP/1.1\r\n\r\n"
	kernel, err := Probe()
	must(t, err)
	d, err := Load(Options{FastPath: true, Kernel: kernel})
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	// With its verdict program the socket has the receive call that leaves the time.
	must(t, d.attachSockets())
	enterCgroup(t, ebpf.AttachCgroupInetSockRelease, d.fast.Release)

	for i, test := range []struct {
		name string
		// answered: the lease of the request is not filled yet. ended: the server had ended its sending side before, and what comes
		// later may be a segment.
		answered, ended bool
		serve           func(*closing)
		unread          bool
		// bytes: only those that lie there tell, where the kernel charges them to the socket.
		bytes bool
	}{
		{"the server has not called receive", false, false, func(c *closing) { c.send(request) }, true, false},
		{"it has, and got nothing before the request came", false, false, func(c *closing) { c.receive(0); c.send(request) }, false, false},
		{"it has looked at the request", false, false, func(c *closing) { c.send(request); c.peek(len(request)) }, false, false},
		{"it has read all of it", false, false, func(c *closing) { c.send(request); c.receive(len(request)) }, false, false},
		{"it has read a byte of it", false, false, func(c *closing) { c.send(request); c.receive(1) }, false, false},
		{"it has read what came before it", false, false, func(c *closing) { c.send("rest"); c.send(request); c.receive(4) }, false, false},
		{"it has read more than that", false, false, func(c *closing) { c.send("rest"); c.send(request); c.receive(5) }, false, false},
		{"it has called receive, and the request may have been there", false, false, func(c *closing) { c.receive(0) }, false, false},
		{"the request comes later", true, false, func(c *closing) { c.send("rest"); c.receive(4) }, true, false},
		{"it has ended its sending side, of which a segment tells", false, true, func(c *closing) { c.receive(0); c.send(request) }, true, true},
		{"it has ended its sending side, and read a byte", false, true, func(c *closing) { c.send(request); c.receive(1) }, false, false},
		{"what lies there came over TCP", false, true, func(c *closing) { c.send(request); c.receive(len(request)); c.sendOverTCP(request) }, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newClosing(t, d, uint32(i))
			must(t, d.Shared.Hold(maps.GrowingSlots, uint32(i), 1))
			slot := &d.Shared.Slots[i]
			state := ssockState{Slot: uint32(i), Generation: 1}
			if test.ended {
				state.ReadNs = uint64(maps.Now())
			}
			*slot = maps.Slot{Generation: 1, Lease: 7, Sent: uint64(len(request)), BegunNs: uint64(maps.Now()) + 1}
			if test.answered {
				slot.Response.Phase = uint32(maps.PhaseDone)
			}
			must(t, d.objects.SsockStates.Put(uint32(c.server.Fd()), state))
			test.serve(c)
			must(t, c.server.Close())
			want := test.unread && (kernel.IngressCharged || !test.bytes)
			lease := maps.Lease{Slot: uint32(i), Number: 7}
			if got := d.Shared.ClosedUnread(lease); got != want {
				t.Errorf("nothing of the request was read: got %v, want %v", got, want)
			}
			if d.Shared.ClosedHolding(lease) && !want {
				t.Error("the request lay there unread, and was read")
			}
		})
	}
}

// ssockState is struct ssock of bpf/lib/conn.h.
type ssockState struct {
	Slot, Generation uint32
	Lease            uint64
	Send             [4]uint64
	ReadNs           uint64
}

// closing is a server's end of an i-sock, and who sends to it.
type closing struct {
	t      *testing.T
	server *os.File
	peer   net.Conn
	sender int
}

func newClosing(t *testing.T, d *Datapath, slot uint32) *closing {
	t.Helper()
	c := &closing{t: t, sender: tcpSocket(t)}
	c.server, c.peer = tcpFile(t)
	must(t, d.objects.Ssocks.Put(slot, uint64(c.server.Fd())))
	redirectSends(t, c.sender, d.objects.Ssocks, uint64(slot))
	return c
}

func (c *closing) send(message string) {
	c.t.Helper()
	must(c.t, write(c.sender, []byte(message)))
}

func (c *closing) sendOverTCP(message string) {
	c.t.Helper()
	_, err := c.peer.Write([]byte(message))
	must(c.t, err)
	c.peek(len(message))
}

func (c *closing) receive(n int) { c.t.Helper(); c.take(n, unix.MSG_DONTWAIT) }
func (c *closing) peek(n int)    { c.t.Helper(); c.take(n, unix.MSG_PEEK) }

// take reads that many bytes; 0: there must be none.
func (c *closing) take(n, flags int) {
	c.t.Helper()
	got, _, err := unix.Recvfrom(int(c.server.Fd()), make([]byte, max(n, 1)), flags)
	if n == 0 && errors.Is(err, unix.EAGAIN) {
		return
	}
	if err != nil || got != n {
		c.t.Fatalf("receive: got %d bytes, %v, want %d", got, err, n)
	}
}

// enterCgroup makes the sockets that this process opens from here on pass programs of one kind.
func enterCgroup(t *testing.T, hook ebpf.AttachType, programs ...*ebpf.Program) {
	t.Helper()
	var list []attachment
	for _, program := range programs {
		list = append(list, attachment{program: program, hook: hook})
	}
	enterCgroupWith(t, list)
}

// enterCgroupWith is enterCgroup for programs of several kinds.
func enterCgroupWith(t *testing.T, list []attachment) {
	t.Helper()
	root, own := ownCgroup(t)
	path := filepath.Join(root, fmt.Sprintf("xlb-datapath-test-%d", os.Getpid()))
	must(t, os.Mkdir(path, 0o755))
	enter := func(cgroup string) {
		must(t, os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), []byte("0"), 0))
	}
	t.Cleanup(func() {
		enter(own)
		must(t, os.Remove(path))
	})
	for _, a := range list {
		l, err := link.AttachCgroup(link.CgroupOptions{Path: path, Attach: a.hook, Program: a.program})
		must(t, err)
		t.Cleanup(func() { must(t, l.Close()) })
	}
	enter(path)
}

// ownCgroup finds the mount of cgroup v2, and this process's place in it.
func ownCgroup(t *testing.T) (root, own string) {
	t.Helper()
	mounts, err := os.Open("/proc/self/mountinfo")
	must(t, err)
	defer mounts.Close()
	for lines := bufio.NewScanner(mounts); lines.Scan(); {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		if fields := strings.Fields(before); strings.HasPrefix(after, "cgroup2 ") && len(fields) >= 5 {
			root = fields[4]
		}
	}
	if root == "" {
		t.Fatal("cgroup v2 is not mounted")
	}
	content, err := os.ReadFile("/proc/self/cgroup")
	must(t, err)
	for line := range strings.Lines(string(content)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return root, filepath.Join(root, path)
		}
	}
	t.Fatal("this process is in no cgroup v2")
	return "", ""
}

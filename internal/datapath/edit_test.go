// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/maps/bpfmap"
	"github.com/xlb-project/xlb/test/await"
)

// editor is a socket whose requests get another path on their way.
type editor struct {
	t *testing.T
	editPrograms
	// conn is the socket, and from where its messages arrive.
	conn, from *net.TCPConn
	fd         int
	edits      uint64
	rewrites   bpfmap.Table[uint32, maps.Rewrite]
}

// editPrograms are the parts of the kernel object that an editor needs.
type editPrograms struct {
	Program  *ebpf.Program `ebpf:"xlb_selftest_edit"`
	Verdict  *ebpf.Program `ebpf:"xlb_receive_verdict"`
	Rewrites *ebpf.Map     `ebpf:"rewrites"`
	Tests    *ebpf.Map     `ebpf:"edit_tests"`
	Socks    *ebpf.Map     `ebpf:"probe_socks"`
}

// newEditor returns one whose messages go into its own queue, or, remote, out by TCP.
func newEditor(t *testing.T, remote bool) *editor {
	t.Helper()
	spec, err := loadXlb()
	must(t, err)
	e := &editor{t: t}
	must(t, spec.LoadAndAssign(&e.editPrograms, nil))
	t.Cleanup(func() {
		for _, c := range []io.Closer{e.Program, e.Verdict, e.Rewrites, e.Tests, e.Socks} {
			must(t, c.Close())
		}
	})
	pages := bpfmap.NewPages("rewrites", e.Rewrites, spec.Maps["rewrites"].InnerMap)
	t.Cleanup(func() { must(t, pages.Close()) })
	e.rewrites = bpfmap.NewPagedTable[maps.Rewrite](pages)
	for _, a := range []link.RawAttachProgramOptions{
		{Target: e.Socks.FD(), Program: e.Program, Attach: ebpf.AttachSkMsgVerdict},
		{Target: e.Socks.FD(), Program: e.Verdict, Attach: ebpf.AttachSkSKBStreamVerdict},
	} {
		must(t, link.RawAttachProgram(a))
	}
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	defer l.Close()
	e.conn, err = net.DialTCP("tcp4", nil, l.Addr().(*net.TCPAddr))
	must(t, err)
	peer, err := l.AcceptTCP()
	must(t, err)
	t.Cleanup(func() { e.conn.Close(); peer.Close() })
	e.from = e.conn
	given := make([]byte, e.Tests.ValueSize())
	if remote {
		e.from = peer
		given[len(given)-16] = 1
	}
	must(t, e.Tests.Put(uint32(0), given))
	must(t, control(e.conn, func(fd uintptr) error {
		e.fd = int(fd)
		return e.Socks.Put(uint32(0), uint64(fd))
	}))
	return e
}

// verdict of the last message, and whether it was edited.
func (e *editor) verdict() (v maps.Verdict, edited bool) {
	e.t.Helper()
	seen := make([]byte, e.Tests.ValueSize())
	must(e.t, e.Tests.Lookup(uint32(0), &seen))
	before := e.edits
	end := seen[len(seen)-16:]
	e.edits = *(*uint64)(unsafe.Pointer(&end[8]))
	return maps.Verdict(*(*uint32)(unsafe.Pointer(&end[4]))), e.edits > before
}

func (e *editor) rewrite(text string, cut uint32) {
	e.t.Helper()
	r := maps.Rewrite{Cut: cut, Len: uint32(len(text))}
	copy(r.Text[:], text)
	must(e.t, e.rewrites.Put(1, r))
}

// requireArrives reads what arrives, and compares.
func (e *editor) requireArrives(what string, want []byte) {
	e.t.Helper()
	got := make([]byte, len(want))
	must(e.t, e.from.SetReadDeadline(time.Now().Add(await.Patience)))
	n, err := io.ReadFull(e.from, got)
	if err != nil || !bytes.Equal(got, want) {
		at := 0
		for at < n && got[at] == want[at] {
			at++
		}
		v, edited := e.verdict()
		e.t.Fatalf("%s (edited: %t, %s): arrived %d of %d bytes (%v), other from byte %d on: %q, want %q", what, edited, maps.VerdictName(v), n, len(want), err, at,
			got[max(at-40, 0):min(at+40, n)], want[max(at-40, 0):min(at+40, len(want))])
	}
}

// editCase is a request and what is to become of it.
type editCase struct {
	text       string
	cut        uint32
	sent, want []byte
}

// drawEdit draws a request of at most so many bytes, and a rewrite that makes its path shorter, longer, or neither.
func drawEdit(random *rand.Rand, most int) editCase {
	word := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "abcdefghijklmnopqrstuvwxyz0123456789-_/."[random.IntN(40)]
		}
		return string(b)
	}
	methods := []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"}
	method, path, query := methods[random.IntN(len(methods))], "/"+word(random.IntN(200)), ""
	if random.IntN(16) == 0 {
		path += word(1000)
	}
	if random.IntN(2) == 0 {
		query = "?" + word(random.IntN(40))
	}
	c := editCase{text: "/" + word(random.IntN(int(maps.MaxRewrite)))}
	if random.IntN(8) == 0 {
		c.text = "/" + word(int(maps.MaxRewrite)-1)
	}
	cut := random.IntN(len(path) + 1)
	switch random.IntN(4) {
	case 0:
		cut = min(len(c.text), len(path))
	case 1:
		cut = len(path)
	}
	c.cut = uint32(cut)
	if cut == len(path) && random.IntN(2) == 0 {
		c.cut = maps.NoLimit
	}
	fields, body := " HTTP/1.1\r\nHost: a.test\r\n", ""
	if n := random.IntN(4); n > 0 {
		fields += "X-Filler: " + word(random.IntN([]int{1, 100, 1000, 6000}[n])) + "\r\n"
	}
	left := most - len(path) - len(query) - len(fields) - 200
	switch random.IntN(4) {
	case 0:
		body = word(random.IntN(min(left, 1<<random.IntN(18)) + 1))
		fields += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	case 1:
		chunk := word(1 + random.IntN(min(left, 1<<random.IntN(18))))
		body = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(chunk), chunk)
		fields += "Transfer-Encoding: chunked\r\n"
	}
	rest := query + fields + "\r\n" + body
	c.sent, c.want = []byte(method+" "+path+rest), []byte(method+" "+c.text+path[cut:]+rest)
	return c
}

func (c *editCase) String() string {
	line, _, _ := bytes.Cut(c.sent, []byte("\r"))
	return fmt.Sprintf("%d bytes, %q, first %d become %q", len(c.sent), line, c.cut, c.text)
}

func TestEditedRequestsArriveAsTheyShould(t *testing.T) {
	for _, remote := range []bool{false, true} {
		t.Run(fmt.Sprintf("remote %t", remote), func(t *testing.T) {
			e := newEditor(t, remote)
			random := rand.New(rand.NewPCG(1, 2))
			const most = 100_000
			for range 20_000 {
				c := drawEdit(random, most)
				e.rewrite(c.text, c.cut)
				written := make(chan error, 1)
				go func() {
					n, err := e.conn.Write(c.sent)
					if n != len(c.sent) {
						err = errors.Join(err, fmt.Errorf("%d of %d bytes", n, len(c.sent)))
					}
					written <- err
				}()
				e.requireArrives(c.String(), c.want)
				must(t, <-written)
				if v, edited := e.verdict(); !edited {
					t.Fatalf("%s: %s", &c, maps.VerdictName(v))
				}
			}
			e.requireNoDrift()
		})
	}
}

// A longer path does not make two segments of a request that fits into one.
func TestLongerRequestsTakeOneSegment(t *testing.T) {
	const count = 100
	e := newEditor(t, true)
	segments := func() uint32 {
		info, err := unix.GetsockoptTCPInfo(e.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		must(t, err)
		return info.Data_segs_out
	}
	e.rewrite("/"+strings.Repeat("longer", 10), 2)
	before := segments()
	for range count {
		_, err := io.WriteString(e.conn, "GET /a HTTP/1.1\r\nHost: a.test\r\n\r\n")
		must(t, err)
		e.requireArrives("request", []byte("GET /"+strings.Repeat("longer", 10)+" HTTP/1.1\r\nHost: a.test\r\n\r\n"))
	}
	if got := segments() - before; got > count+count/10 {
		t.Errorf("%d segments for %d requests", got, count)
	}
}

// requireNoDrift checks that what the kernel charged to the socket it has given back.
func (e *editor) requireNoDrift() {
	e.t.Helper()
	const rmem, forward, queued = 0, 4, 5
	await.Quiet(e.t, func() string {
		info := meminfo(e.t, e.fd)
		if info[rmem] == 0 && info[queued] == 0 && info[forward] <= 1<<20 {
			return ""
		}
		return fmt.Sprintf("SO_MEMINFO %v: memory is charged to a socket with nothing in it", info)
	})
}

func meminfo(t *testing.T, fd int) (info [9]uint32) {
	t.Helper()
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	return info
}

// However the application sends, what it sends from is not the kernel programs' to write to.
func TestEditsLeaveTheSendersMemoryAlone(t *testing.T) {
	const most = 60_000
	page := os.Getpagesize()
	for name, send := range map[string]func(t *testing.T, fd int, memory []byte, n int){
		"write": func(t *testing.T, fd int, memory []byte, n int) {
			must(t, write(fd, memory[:n]))
		},
		"writev": func(t *testing.T, fd int, memory []byte, n int) {
			_, err := unix.Writev(fd, [][]byte{memory[:1], memory[1 : n/3], memory[n/3 : n]})
			must(t, err)
		},
		"MSG_ZEROCOPY": func(t *testing.T, fd int, memory []byte, n int) {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ZEROCOPY, 1)
			_, err := unix.SendmsgN(fd, memory[:n], nil, nil, unix.MSG_ZEROCOPY)
			must(t, err)
		},
		"vmsplice": func(t *testing.T, fd int, memory []byte, n int) {
			sendSpliced(t, fd, memory, n)
		},
		"sendfile": func(t *testing.T, fd int, memory []byte, n int) {
			sendFile(t, fd, memory, n)
		},
	} {
		for _, remote := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, remote %t", name, remote), func(t *testing.T) {
				e := newEditor(t, remote)
				memory, err := unix.Mmap(-1, 0, (most/page+1)*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
				must(t, err)
				defer func() { must(t, unix.Munmap(memory)) }()
				random, edited := rand.New(rand.NewPCG(3, 4)), 0
				for range 300 {
					c := drawEdit(random, most)
					if strings.HasPrefix(name, "vmsplice") && len(c.sent) > 16*page {
						continue // more than a pipe holds
					}
					e.rewrite(c.text, c.cut)
					copy(memory, c.sent)
					done := make(chan struct{})
					go func() {
						defer close(done)
						send(t, e.fd, memory, len(c.sent))
					}()
					e.requireOneOf(&c)
					<-done
					if !bytes.Equal(memory[:len(c.sent)], c.sent) {
						t.Fatalf("%s: the sender's memory has changed: %q", &c, memory[:min(len(c.sent), 300)])
					}
					if _, is := e.verdict(); is {
						edited++
					}
				}
				t.Logf("%d of 300 edited", edited)
				if edited < 100 {
					t.Errorf("%d of 300 edited", edited)
				}
			})
		}
	}
}

// requireOneOf reads a request, edited or, if it came in pieces, as it is.
func (e *editor) requireOneOf(c *editCase) {
	e.t.Helper()
	short, long := c.sent, c.want
	if len(short) > len(long) {
		short, long = long, short
	}
	got := make([]byte, len(long))
	must(e.t, e.from.SetReadDeadline(time.Now().Add(await.Patience)))
	n, err := io.ReadFull(e.from, got[:len(short)])
	must(e.t, err)
	if bytes.Equal(got[:n], short) && len(short) < len(long) && !bytes.HasPrefix(long, short) {
		return
	}
	_, err = io.ReadFull(e.from, got[n:])
	must(e.t, err)
	if !bytes.Equal(got, long) {
		e.t.Fatalf("%s: arrived %q", c, got[:min(len(got), 300)])
	}
}

func sendSpliced(t *testing.T, fd int, memory []byte, n int) {
	var pipe [2]int
	must(t, unix.Pipe(pipe[:]))
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	filled, err := unix.Vmsplice(pipe[1], []unix.Iovec{{Base: &memory[0], Len: uint64(n)}}, 0)
	must(t, err)
	if filled != n {
		t.Errorf("vmsplice took %d of %d bytes", filled, n)
	}
	for n > 0 {
		moved, err := unix.Splice(pipe[0], nil, fd, nil, n, 0)
		if errors.Is(err, unix.EAGAIN) {
			continue
		}
		must(t, err)
		n -= int(moved)
	}
}

// sendFile sends a file with these bytes, and checks that it still has them.
func sendFile(t *testing.T, fd int, memory []byte, n int) {
	name := filepath.Join(t.TempDir(), "request")
	must(t, os.WriteFile(name, memory[:n], 0o600))
	f, err := os.Open(name)
	must(t, err)
	defer f.Close()
	for left := n; left > 0; {
		sent, err := unix.Sendfile(fd, int(f.Fd()), nil, left)
		if errors.Is(err, unix.EAGAIN) {
			continue
		}
		must(t, err)
		left -= sent
	}
	got, err := os.ReadFile(name)
	must(t, err)
	if !bytes.Equal(got, memory[:n]) {
		t.Errorf("the file has changed: %q", got[:min(n, 300)])
	}
}

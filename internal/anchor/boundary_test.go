// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/test/violation"
)

// Who makes a Boundary elsewhere asserts what this file's rules are to prove.
func TestBoundariesAreMadeInOneFile(t *testing.T) {
	names, err := filepath.Glob("*.go")
	must(t, err)
	files, made := token.NewFileSet(), 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, name, nil, 0)
		must(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			l, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			if of, ok := l.Type.(*ast.Ident); ok && of.Name == "Boundary" {
				made++
				if name != "boundary.go" {
					t.Errorf("%s: a Boundary is made outside of boundary.go", files.Position(l.Pos()))
				}
			}
			return true
		})
	}
	if made == 0 {
		t.Error("no Boundary is made: the test says nothing")
	}
}

// notServed fails the test for a rest that is served as a request.
func notServed(t *testing.T) func(context.Context, net.Conn, Session) Result {
	return func(_ context.Context, conn net.Conn, _ Session) Result {
		b := make([]byte, 64)
		n, _ := conn.Read(b)
		violation.Errorf(t, "the rest of a body was served as a request: %q", b[:n])
		return Result{}
	}
}

// The lease of a request ends before its rest has come: its endpoint answered by its head, and closed.
func TestRestOfABodyIsNeverServedAsARequest(t *testing.T) {
	const rest = "GET /private HTTP/1.1\r\n\r\n"
	lease := maps.Lease{Slot: 2, Number: 7}
	for _, reason := range []maps.Verdict{maps.HandoverBodySpilled, maps.HandoverLeaseBroken} {
		for _, tt := range []struct {
			name string
			// answer is what becomes of the client's connection; nil: nobody has answered.
			answer func(r *rig) Outcome
		}{
			{"nobody has answered", nil},
			{"the answer is the last", func(*rig) Outcome { return Linger }},
			{"the connection was kept", func(r *rig) Outcome { return r.keep(lease) }},
			{"the lease was to run on", func(*rig) Outcome { return Runs }},
		} {
			t.Run(maps.VerdictName(reason)+", "+tt.name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, setup{serve: notServed(t)})
				c := r.dial()
				r.awaitOpen(1)
				r.openLease(c, lease.Slot, lease.Number)
				r.decline(c, maps.SlowConn{Reason: uint32(reason), Slot: lease.Slot, Lease: lease.Number, HasLease: 1})
				r.setLeased(lease.Slot, maps.PendingRequest, 0)
				if !r.shared.CancelLease(lease) {
					t.Fatal("the lease does not run")
				}
				used := make(chan struct{})
				go func() {
					defer close(used)
					if tt.answer != nil {
						r.s.Use(c.cookie, lease, maps.VerdictSpilled, func(net.Conn) (uint64, Outcome) { return 0, tt.answer(r) })
					}
				}()
				defer func() { <-used }()
				// It fails where the connection has ended.
				_, _ = io.WriteString(c, rest)
				c.mustEndSomehow()
				r.awaitOpen(0)
			})
		}
	}
}

// mustEndSomehow demands that the connection ends here, without a byte.
func (c *client) mustEndSomehow() {
	c.t.Helper()
	must(c.t, c.SetReadDeadline(deadline()))
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		c.t.Errorf("end of the connection: got %d bytes, %v, want an end", n, err)
	}
	c.Close()
}

// All of a request that has spilled has been sent on: what comes behind it is the next one, though the entry is still that of the rest.
func TestRequestBehindAnUploadIsServed(t *testing.T) {
	t.Parallel()
	lease := maps.Lease{Slot: 2, Number: 7}
	var uploaded atomic.Bool
	var r *rig
	r = newRig(t, setup{upload: func(_ context.Context, conn Client, _ maps.Lease) Uploaded {
		must(t, conn.Discard(len("rest")))
		uploaded.Store(true)
		r.setLease(lease.Slot, lease.Number+1)
		return Uploaded{Read: uint64(len("rest")), End: UploadDone}
	}})
	c := r.dial()
	r.openLease(c, lease.Slot, lease.Number)
	c.send("rest")
	c.exchange("request")
	if !uploaded.Load() {
		t.Error("the rest was not sent on")
	}
}

// Nothing of a lease says that the request of another one has ended.
func TestConnectionIsKeptByTheProofOfItsOwnLeaseAlone(t *testing.T) {
	for _, other := range []maps.Lease{{Slot: 2, Number: 5}, {Slot: 1, Number: 7}, {}} {
		r := newRig(t, setup{})
		c := r.dial()
		r.awaitOpen(1)
		r.s.Use(c.cookie, maps.Lease{Slot: 2, Number: 7}, maps.VerdictSpilled, func(net.Conn) (uint64, Outcome) { return 0, r.keep(other) })
		c.mustEnd(unix.ECONNRESET)
		if w := r.whole(other); r.s.Resend(c.cookie, maps.Lease{Slot: 2, Number: 7}, w, nil) {
			t.Errorf("a request is sent again by the proof of %+v", other)
		}
	}
}

// A client that has been answered can send the rest of its request, and is not reset before it has read the answer.
func TestClientThatHasBeenAnsweredCanSendTheRest(t *testing.T) {
	t.Parallel()
	lease := maps.Lease{Slot: 2, Number: 7}
	r := newRig(t, setup{serve: notServed(t)})
	c := r.dial()
	r.openLease(c, lease.Slot, lease.Number)
	r.setLeased(lease.Slot, maps.PendingRequest, 0)
	r.shared.CancelLease(lease)
	r.s.Use(c.cookie, lease, maps.VerdictSpilled, write("answer", Linger))
	must(t, c.SetDeadline(deadline()))
	_, err := c.Write(make([]byte, limits.LingerBytes/2))
	must(t, err)
	c.mustReceive("answer")
	c.mustEnd(io.EOF)
	c.Close()
	r.awaitOpen(0)
}

// A body that cannot be framed is answered, and nothing of it is read, unless its client has some of a response.
func TestBodyThatCannotBeFramedIsRefused(t *testing.T) {
	for _, begun := range []uint32{0, 1} {
		r := newRig(t, setup{serve: notServed(t), refuse: func(conn net.Conn) uint64 {
			n, err := io.WriteString(conn, "refused")
			must(t, err)
			return uint64(n)
		}})
		c := r.dial()
		r.awaitOpen(1)
		r.decline(c, maps.SlowConn{Reason: uint32(maps.HandoverBodyMalformed), Begun: begun})
		c.send("no chunk")
		if begun == 0 {
			c.mustReceive("refused")
		}
		c.mustEndSomehow()
		r.awaitOpen(0)
	}
}

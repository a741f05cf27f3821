// SPDX-License-Identifier: Apache-2.0

package limits_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/test/await"
)

// quicker is by how much bounds of time are shorter here than in the table, and slack how much later a bound may show on a machine with other work. An end
// that comes by a number in place of the table's comes behind both.
const (
	quicker = 50
	slack   = 4 * time.Second
)

// patience ends what no bound has ended.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	for _, r := range limits.All() {
		for _, d := range []*time.Duration{&r.Connect, &r.Head, &r.Whole, &r.Send, &r.Idle} {
			*d /= quicker
		}
	}
	// A response of 64 MiB costs more than it shows.
	limits.ControlPlane.BodyBytes = 4 << 20
	os.Exit(m.Run())
}

// attacks on each row, by what the peer does. Each shows the bound, or fails.
var attacks = map[*limits.Row]map[string]func(*testing.T){
	&limits.Admin: {
		"a silent connection": func(t *testing.T) { requireCut(t, serveAdmin(t), limits.Admin.Head, "", nil) },
		"a head byte by byte": func(t *testing.T) {
			requireCut(t, serveAdmin(t), limits.Admin.Head, "GET /ready HTTP/1.1\r\nX: ", drip)
		},
		"a head without an end": func(t *testing.T) { requireAnswer(t, serveAdmin(t), "GET / HTTP/1.1\r\nX: ", "431") },
		"a body without an end": func(t *testing.T) {
			requireCut(t, serveAdmin(t), limits.Admin.Whole, "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", dripChunks)
		},
		"four times as many connections": crowdOfVisitors,
	},
	&limits.ControlPlane: {
		"a silent server":               silentControlPlane,
		"metadata beyond its bound":     func(t *testing.T) { requireRefusedStream(t, &plane{header: 2 * limits.ControlPlane.HeadBytes}) },
		"a response beyond its bound":   func(t *testing.T) { requireRefusedStream(t, &plane{body: limits.ControlPlane.BodyBytes + 1}) },
		"a server that hangs up always": func(t *testing.T) { requireRefusedStream(t, &plane{ends: true}) },
	},
	&limits.Secrets: {"a secret beyond its bound": longSecret},
	&limits.HealthHTTP: {
		"a silent server":     func(t *testing.T) { requireUnsupported(t, true, "", nil) },
		"a head byte by byte": func(t *testing.T) { requireUnsupported(t, true, "HTTP/1.1 200 OK\r\nX: ", drip) },
		"a head without an end": func(t *testing.T) {
			requireUnsupported(t, true, "HTTP/1.1 200 OK\r\nX: ", flood(limits.HealthHTTP.HeadBytes))
		},
		"an answer without end": func(t *testing.T) {
			requireUnsupported(t, true, "HTTP/1.1 200 OK\r\n\r\n", flood(limits.HealthHTTP.BodyBytes))
		},
		"an answer byte by byte":  func(t *testing.T) { requireUnsupported(t, true, "HTTP/1.1 200 OK\r\n\r\n", drip) },
		"interim answers for all": func(t *testing.T) { requireUnsupported(t, true, "", repeat("HTTP/1.1 103 Early Hints\r\n\r\n")) },
	},
	&limits.HealthTCP: {
		"a silent server":       func(t *testing.T) { requireUnsupported(t, false, "", nil) },
		"an answer without end": func(t *testing.T) { requireUnsupported(t, false, "", flood(limits.HealthTCP.BodyBytes)) },
	},
	&limits.DNS: {
		"a silent server":        func(t *testing.T) { requireNoName(t, nil) },
		"an answer byte by byte": func(t *testing.T) { requireNoName(t, drip) },
	},
	&limits.Downstream: {
		"a head byte by byte": func(t *testing.T) {
			requireAnswer(t, serveSlowPath(t, ""), "GET / HTTP/1.1\r\nHost: a\r\nX: ", "408", drip)
		},
		"a head without an end": func(t *testing.T) { requireAnswer(t, serveSlowPath(t, ""), "GET / HTTP/1.1\r\nHost: a\r\nX: ", "431") },
		"fields without an end": func(t *testing.T) {
			requireAnswer(t, serveSlowPath(t, ""), "GET / HTTP/1.1\r\nHost: a\r\n"+strings.Repeat("a:b\r\n", limits.Downstream.HeadFields)+"\r\n", "431", nil)
		},
		"a body that stands still": func(t *testing.T) {
			requireAnswer(t, serveSlowPath(t, ""), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nx", "408", nil)
		},
	},
	&limits.Upstream: {
		"an endpoint that is not there": func(t *testing.T) { requireAnswer(t, serveSlowPath(t, nowhere), plainGet, "503", nil) },
		"a silent endpoint":             func(t *testing.T) { requireAnswer(t, serveSlowPath(t, serveBytes(t, "", nil)), plainGet, "504", nil) },
		"an answer's head without an end": func(t *testing.T) {
			requireAnswer(t, serveSlowPath(t, serveBytes(t, "HTTP/1.1 200 OK\r\nX: ", flood(1<<20))), plainGet, "502", nil)
		},
		"interim answers for all": func(t *testing.T) {
			requireFewInterims(t, serveSlowPath(t, serveBytes(t, "", repeat("HTTP/1.1 103 Early Hints\r\n\r\n"))))
		},
	},
}

const plainGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

// Each server and client of the table is attacked, and shows its bound.
func TestEachRowWithstandsItsAttacks(t *testing.T) {
	for _, r := range limits.All() {
		for name, attack := range attacks[r] {
			t.Run(r.Name+"/"+name, func(t *testing.T) {
				t.Parallel()
				await.OneOfThree(t, "the time", func() (difference string) {
					late.Delete(t)
					attack(t)
					if text, ok := late.Load(t); ok {
						return text.(string)
					}
					return ""
				})
			})
		}
	}
}

// late has what took too long, by the test: then the attack is made again.
var late sync.Map

// within notes if f does not end in that time, give or take the machine's other work.
func within(t *testing.T, bound time.Duration, what string, f func()) {
	t.Helper()
	began := time.Now()
	f()
	if took := time.Since(began); took > bound+slack {
		late.Store(t, fmt.Sprintf("%s took %v, want at most %v", what, took, bound))
	}
}

// speak is what a peer goes on to say, until an error.
type speak func(c net.Conn) error

// drip is a byte at a time, more often than any bound of silence.
func drip(c net.Conn) error { return dripped(c, "a") }

func dripChunks(c net.Conn) error { return dripped(c, "1\r\na\r\n") }

func dripped(c net.Conn, text string) error {
	for {
		if _, err := io.WriteString(c, text); err != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// flood sends more than there may be, as fast as it is taken.
func flood(most int) speak {
	text := strings.Repeat("a", 64<<10)
	return func(c net.Conn) error {
		for range 64 + 4*most/len(text) {
			if _, err := io.WriteString(c, text); err != nil {
				return err
			}
		}
		return nil
	}
}

func repeat(text string) speak {
	return func(c net.Conn) error {
		for {
			if _, err := io.WriteString(c, text); err != nil {
				return err
			}
		}
	}
}

// open connects to a server and says something, and then goes on.
func open(t *testing.T, address, first string, then speak) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	err = errors.Join(c.SetDeadline(time.Now().Add(patience)), func() error { _, err := io.WriteString(c, first); return err }())
	if err != nil {
		t.Fatal(err)
	}
	if then != nil {
		go func() { _ = then(c) }()
	}
	return c
}

// requireCut fails unless a server ends the connection of such a client in time, whatever it says before.
func requireCut(t *testing.T, address string, bound time.Duration, first string, then speak) {
	t.Helper()
	c := open(t, address, first, then)
	within(t, bound, "the connection", func() {
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the connection is open after %v", patience)
		}
	})
}

// requireAnswer fails unless a server answers such a client with a status, in the time that it gives silence. By itself the client goes on without an end.
func requireAnswer(t *testing.T, address, first, status string, then ...speak) {
	t.Helper()
	goesOn := flood(16 << 20)
	if len(then) > 0 {
		goesOn = then[0]
	}
	c := open(t, address, first, goesOn)
	within(t, limits.Downstream.Idle, "the answer", func() {
		line := make([]byte, len("HTTP/1.1 200"))
		if _, err := io.ReadFull(c, line); err != nil || string(line[len("HTTP/1.1 "):]) != status {
			t.Errorf("got %q, %v, want %s", line, err, status)
		}
	})
}

// requireFewInterims fails unless a request is answered with 502 behind a few interim answers.
func requireFewInterims(t *testing.T, address string) {
	t.Helper()
	c := open(t, address, plainGet, nil)
	const few = 20
	interims := 0
	within(t, 0, "the answer", func() {
		for lines := bufio.NewScanner(c); lines.Scan() && interims < few; {
			switch line := lines.Text(); {
			case strings.HasPrefix(line, "HTTP/1.1 103"):
				interims++
			case strings.HasPrefix(line, "HTTP/1.1 502"):
				return
			}
		}
		t.Errorf("%d interim answers and no 502", interims)
	})
}

// serveBytes listens; to each who connects it says something behind the first bytes that come, and then goes on.
func serveBytes(t *testing.T, first string, then speak) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(t.Context(), func() { _ = c.Close() })
			go func() {
				if _, err := c.Read(make([]byte, 4<<10)); err != nil {
					return
				}
				if _, err := io.WriteString(c, first); err == nil && then != nil {
					_ = then(c)
				}
			}()
		}
	}()
	return l.Addr().String()
}

func addressOf(text string) netip.AddrPort { return netip.MustParseAddrPort(text) }

var discard = slog.New(slog.DiscardHandler)

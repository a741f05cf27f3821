// SPDX-License-Identifier: Apache-2.0

package neighbours

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// floodConnections ask at the same time, unreadConnections wait with a response each, and crashConnections are open when the pod is killed.
	floodConnections, unreadConnections, crashConnections = 64, 256, 2000
	// openers open connections at the same time.
	openers = 64
	// answerPatience bounds the wait for one answer.
	answerPatience = 10 * time.Second
	get            = "GET / HTTP/1.1\r\nHost: hostile\r\n\r\n"
	// endless is a request whose body never comes.
	endless = "POST / HTTP/1.1\r\nHost: hostile\r\nContent-Length: 1000000\r\n\r\nx"
	ready   = "ready"
)

// Abuse is what the hostile pod has done.
type Abuse struct {
	// Open were opened, and stayed so until the end unless the pod crashed; Refused were not.
	Open    int64 `json:"open"`
	Refused int64 `json:"refused"`
	// Answers were read, and Errors are requests without one, where an answer is waited for.
	Answers int64 `json:"answers"`
	Errors  int64 `json:"errors"`
	// Crashes are how often the pod was killed.
	Crashes int64 `json:"crashes"`
}

// hostilePod is the program of the hostile pod.
type hostilePod struct {
	// short and long are where responses are.
	short, long netip.AddrPort

	open, refused, answers, errors, crashes atomic.Int64

	mu    sync.Mutex
	conns []net.Conn // guarded by mu
}

// Be is the program of the hostile pod: it prints a line when all is under way, and goes on until ctx ends. Then it prints its report.
// Direct is to its servers' own addresses.
func Be(ctx context.Context, kind string, connections int, direct bool, out io.Writer) error {
	h := hostilePod{short: abused, long: long}
	if direct {
		h.short, h.long = shortServer, longServer
	}
	var under sync.WaitGroup
	switch kind {
	case Burn:
		for range runtime.NumCPU() {
			under.Go(func() { burn(ctx) })
		}
	case Idle:
		h.openAll(ctx, h.short, connections, get, h.read)
	case Flood:
		h.openAll(ctx, h.short, floodConnections, get, h.read)
		for _, conn := range h.conns {
			under.Go(func() { h.flood(ctx, conn) })
		}
	case Unread:
		h.openAll(ctx, h.long, min(unreadConnections, connections), get, nil)
	case Leak:
		h.openAll(ctx, h.short, connections, endless, nil)
	case Crash:
		if err := h.crash(ctx); err != nil {
			return err
		}
		under.Go(func() {
			for ctx.Err() == nil && h.crash(ctx) == nil {
			}
		})
	default:
		return fmt.Errorf("a hostile pod that does %q is not known", kind)
	}
	fmt.Fprintln(out, ready)
	<-ctx.Done()
	under.Wait()
	return json.NewEncoder(out).Encode(h.report())
}

func (h *hostilePod) report() Abuse {
	return Abuse{Open: h.open.Load(), Refused: h.refused.Load(), Answers: h.answers.Load(), Errors: h.errors.Load(), Crashes: h.crashes.Load()}
}

// burn calculates.
func burn(ctx context.Context) {
	const between = 1 << 16
	for sum := 0; ctx.Err() == nil; {
		for i := range between {
			sum += i ^ sum
		}
	}
}

// openAll tries to open so many connections, sends begin on each, and does then with it.
func (h *hostilePod) openAll(ctx context.Context, to netip.AddrPort, count int, begin string, then func(net.Conn) error) {
	// Some descriptors are for other things than connections.
	const spare = 100
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		files.Cur = 1024
	}
	var tried atomic.Int64
	var opening sync.WaitGroup
	for range openers {
		opening.Go(func() {
			for ctx.Err() == nil && tried.Add(1) <= int64(count) && h.open.Load() < int64(files.Cur)-spare {
				h.openOne(to, begin, then)
			}
		})
	}
	opening.Wait()
}

func (h *hostilePod) openOne(to netip.AddrPort, begin string, then func(net.Conn) error) {
	conn, err := net.DialTimeout("tcp", to.String(), answerPatience)
	if err != nil {
		h.refused.Add(1)
		return
	}
	h.open.Add(1)
	h.mu.Lock()
	h.conns = append(h.conns, conn)
	h.mu.Unlock()
	if _, err := io.WriteString(conn, begin); err != nil {
		h.errors.Add(1)
		return
	}
	if then != nil {
		// It counts what it does.
		_ = then(conn)
	}
}

// read reads an answer.
func (h *hostilePod) read(conn net.Conn) error {
	err := conn.SetReadDeadline(time.Now().Add(answerPatience))
	if err == nil {
		err = readAnswer(bufio.NewReader(conn))
	}
	if err != nil {
		h.errors.Add(1)
		return err
	}
	h.answers.Add(1)
	return nil
}

func readAnswer(r *bufio.Reader) error {
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", response.Status)
	}
	return response.Body.Close()
}

// flood asks again when it has its answer.
func (h *hostilePod) flood(ctx context.Context, conn net.Conn) {
	for ctx.Err() == nil {
		if _, err := io.WriteString(conn, get); err != nil {
			h.errors.Add(1)
			return
		}
		if h.read(conn) != nil {
			return
		}
	}
}

// crash has a process open connections, and kills it.
func (h *hostilePod) crash(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.CommandContext(ctx, self, "neighbours", "hostile", Idle, "--connections", strconv.Itoa(crashConnections), "--direct="+strconv.FormatBool(h.short == shortServer))
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	// It prints a line when its connections are open, or ends before with ctx.
	_, err = bufio.NewReader(out).ReadString('\n')
	if killErr := child.Process.Kill(); err == nil {
		err = killErr
	}
	// That it was killed is no error.
	_ = child.Wait()
	if err != nil {
		return err
	}
	h.open.Add(crashConnections)
	h.crashes.Add(1)
	return nil
}

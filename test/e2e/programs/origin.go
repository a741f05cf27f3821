// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/test/e2e/body"
)

// Framing of a body: how its end is told (RFC 9112 section 6).
const (
	FramingLength  = "length"
	FramingChunked = "chunked"
	FramingClose   = "close"
)

// UploadDigest is the response header with the SHA-256 of the request's body.
const UploadDigest = "X-Upload-Sha256"

// Identity is the response header that names the server that answered.
const Identity = "X-Identity"

// OriginSpec describes an HTTP server for tests:
//
//	/body?seed=&size=&framing=  a deterministic body; digests the upload first
//	/hold                       answers when the test commands "release"
//	/early                      answers, and reads the request's body when the test commands "release"
//	/stall                      never answers
//	/reset?seed=&size=&framing= half of the body, then a reset
//	/switch                     switches to the protocol that the request asks for: an echo
//	/switch?end=reset           the same, and resets the connection behind an empty line
//	CONNECT                     a tunnel: an echo
//	/from                       the server's identity, and the address that the request has come from
//	/…                          the server's identity
type OriginSpec struct {
	// Address to listen on; port 0 takes a free one.
	Address  string
	Identity string
}

// OriginReady is the server's first answer.
type OriginReady struct{ Address string }

// OriginState answers the commands "state" and "release".
type OriginState struct {
	// Sent is the number of body bytes the kernel has accepted.
	Sent int64
	// Held is the number of requests waiting in /hold.
	Held int64
	// Requests is the number of requests begun.
	Requests int64
	// Late is the number of body bytes that /early has read behind its answers.
	Late int64
}

type origin struct {
	identity string
	sent     atomic.Int64
	held     atomic.Int64
	requests atomic.Int64
	late     atomic.Int64

	mu      sync.Mutex
	release chan struct{} // closed to let the held requests go; guarded by mu
}

func runOrigin(s *stdio) error {
	var spec OriginSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", spec.Address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", spec.Address, err)
	}
	o := &origin{identity: spec.Identity, release: make(chan struct{})}
	server := &http.Server{Handler: o.handler()}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if err := s.answer(OriginReady{Address: listener.Addr().String()}); err != nil {
		return err
	}
	if err := o.obey(s); err != nil {
		return err
	}
	if err := server.Close(); err != nil {
		return fmt.Errorf("close the server: %w", err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// obey answers commands until standard input ends.
func (o *origin) obey(s *stdio) error {
	for {
		command, err := s.command()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a command: %w", err)
		}
		if command == "release" {
			o.mu.Lock()
			close(o.release)
			o.release = make(chan struct{})
			o.mu.Unlock()
		}
		state := OriginState{Sent: o.sent.Load(), Held: o.held.Load(), Requests: o.requests.Load(), Late: o.late.Load()}
		if err := s.answer(state); err != nil {
			return err
		}
	}
}

func (o *origin) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/body", o.serveBody)
	mux.HandleFunc("/hold", o.serveHold)
	mux.HandleFunc("/early", o.serveEarly)
	mux.HandleFunc("/stall", o.serveStall)
	mux.HandleFunc("/reset", o.serveReset)
	mux.HandleFunc("/hangup", o.serveHangup)
	mux.HandleFunc("/switch", o.serveSwitch)
	mux.HandleFunc("/from", o.serveFrom)
	mux.HandleFunc("/", o.serveIdentity)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.requests.Add(1)
		w.Header().Set(Identity, o.identity)
		if r.Method == http.MethodConnect {
			o.serveSwitch(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// serveSwitch echoes what comes behind the request until the client ends.
func (o *origin) serveSwitch(w http.ResponseWriter, r *http.Request) {
	head := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + r.Header.Get("Upgrade") + "\r\n"
	switch {
	case r.Method == http.MethodConnect:
		head = "HTTP/1.1 200 OK\r\n"
	case r.Header.Get("Upgrade") == "":
		http.Error(w, "nothing to switch to", http.StatusBadRequest)
		return
	}
	conn, early, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err) // an HTTP/1 server can
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, head+Identity+": "+o.identity+"\r\n\r\n"); err != nil {
		return
	}
	if r.FormValue("end") == "reset" {
		echoUntilEmptyLine(conn, early)
		return
	}
	// Its end is the client's affair.
	_, _ = io.Copy(conn, early)
}

// echoUntilEmptyLine echoes lines. The connection is reset when it is closed.
func echoUntilEmptyLine(conn net.Conn, r *bufio.ReadWriter) {
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
		panic(err) // it is open
	}
	for {
		line, err := r.ReadString('\n')
		if err != nil || line == "\n" {
			return
		}
		if _, err := io.WriteString(conn, line); err != nil {
			return
		}
	}
}

// serveFrom tells the client where the server takes it to be.
func (o *origin) serveFrom(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		panic(err) // net/http has made it
	}
	_, _ = io.WriteString(w, o.identity+" from "+host)
}

func (o *origin) serveIdentity(w http.ResponseWriter, r *http.Request) {
	if late, err := time.ParseDuration(r.FormValue("late")); err == nil {
		time.Sleep(late)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(o.identity)))
	// A client that is gone is the client's affair.
	_, _ = io.WriteString(w, o.identity)
}

func (o *origin) serveBody(w http.ResponseWriter, r *http.Request) {
	upload := sha256.New()
	if _, err := io.Copy(upload, r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set(UploadDigest, body.Sum(upload))
	o.writeBody(w, r, 1)
}

// writeBody sends the body that the query asks for, up to 1/fraction of it.
func (o *origin) writeBody(w http.ResponseWriter, r *http.Request, fraction int64) {
	size, seed, err := bodyQuery(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch r.FormValue("framing") {
	case FramingChunked:
		// Without a length net/http chunks, but only once it has to flush.
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
	case FramingClose:
		w.Header().Set("Connection", "close")
	default:
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	}
	out, content := &countingWriter{w: w, n: &o.sent}, body.New(seed, size/fraction)
	// An error here is a client that left, which some tests do on purpose.
	if r.FormValue("crumbs") == "true" {
		_ = copyInCrumbs(out, http.NewResponseController(w), content)
		return
	}
	_ = copyInPieces(out, content, rand.New(rand.NewPCG(seed, 0)))
}

// crumb is small enough for TCP to join several of them when it has to send them again.
const crumb = 100

// copyInCrumbs sends r in segments of their own.
func copyInCrumbs(w io.Writer, c *http.ResponseController, r io.Reader) error {
	for {
		n, err := io.CopyN(w, r, crumb)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err := c.Flush(); err != nil || n < crumb {
			return err
		}
	}
}

func bodyQuery(r *http.Request) (size int64, seed uint64, err error) {
	if size, err = strconv.ParseInt(r.FormValue("size"), 10, 64); err != nil {
		return 0, 0, fmt.Errorf("parameter size: %w", err)
	}
	if seed, err = strconv.ParseUint(r.FormValue("seed"), 10, 64); err != nil {
		return 0, 0, fmt.Errorf("parameter seed: %w", err)
	}
	return size, seed, nil
}

func (o *origin) serveHold(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	release := o.release
	o.mu.Unlock()
	o.held.Add(1)
	defer o.held.Add(-1)
	select {
	case <-release:
		o.serveIdentity(w, r)
	case <-r.Context().Done():
	}
}

func (o *origin) serveEarly(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	release := o.release
	o.mu.Unlock()
	control := http.NewResponseController(w)
	if err := control.EnableFullDuplex(); err != nil {
		panic(err) // an HTTP/1 server can
	}
	o.serveIdentity(w, r)
	if err := control.Flush(); err != nil {
		return
	}
	o.held.Add(1)
	defer o.held.Add(-1)
	select {
	case <-release:
	case <-r.Context().Done():
		return
	}
	// A body that ends early is counted as far as it went.
	n, _ := io.Copy(io.Discard, r.Body)
	o.late.Add(n)
}

func (o *origin) serveStall(_ http.ResponseWriter, r *http.Request) {
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

// serveReset sends half of a body and then resets the connection.
func (o *origin) serveReset(w http.ResponseWriter, r *http.Request) {
	o.writeBody(w, r, 2)
	control := http.NewResponseController(w)
	if err := control.Flush(); err != nil {
		panic(http.ErrAbortHandler)
	}
	conn, _, err := control.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		// Linger 0 turns the close into a reset.
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// serveHangup closes the connection without an answer.
func (o *origin) serveHangup(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// countingWriter adds what it has written to n.
type countingWriter struct {
	w io.Writer
	n *atomic.Int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// pieceLimit bounds a single write: several times what one segment or one
// socket buffer grows by, and small enough that bodies are split often.
const pieceLimit = 128 << 10

// copyInPieces writes r to w in writes of random sizes, most of them small.
func copyInPieces(w io.Writer, r io.Reader, random *rand.Rand) error {
	buffer := make([]byte, pieceLimit)
	for {
		size := 1 + random.IntN(1<<(4+random.IntN(14)))
		n, err := io.ReadFull(r, buffer[:size])
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// ServerSpec describes a server.
type ServerSpec struct {
	// Ledger is its directory.
	Ledger string
	Seed   uint64
	// Address to listen on; port 0 takes a free one.
	Address string
	// Name tells it from other servers and from those that were at its address before.
	Name string
	// SameHost tells that one write reaches a client as one.
	SameHost bool
	// Direct tells that clients come without a balancer, so that paths are as they ask for them.
	Direct bool
}

// Server answers as the plans of its requests say.
type Server struct {
	spec     ServerSpec
	ledger   *Ledger
	listener net.Listener
}

// Listen returns a server that listens; Serve serves.
func Listen(spec ServerSpec) (*Server, error) {
	ledger, err := OpenLedger(spec.Ledger)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", spec.Address)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", spec.Address, err), ledger.Close())
	}
	return &Server{spec: spec, ledger: ledger, listener: listener}, nil
}

// Address is where it listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Close ends Serve. Connections go on until the process ends.
func (s *Server) Close() error { return s.listener.Close() }

// Serve accepts connections until the listener is closed.
func (s *Server) Serve() error {
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		go s.serve(conn)
	}
}

// serverBound is the longest time without a byte in the middle of a request: an
// end of the client must have reached the server by then.
const serverBound = 2 * HangBound

func (s *Server) serve(conn net.Conn) {
	w := newWire(conn, serverBound)
	defer w.Close()
	reader := bufio.NewReaderSize(w, 16<<10)
	for keep := true; keep; {
		// An idle connection has no bound.
		w.bound = 24 * time.Hour
		if _, err := reader.Peek(1); err != nil {
			return
		}
		w.bound = serverBound
		e := &serverExchange{server: s, wire: w, reader: reader}
		keep = e.run()
	}
}

// serverExchange is one request as its server sees it.
type serverExchange struct {
	server  *Server
	wire    *wire
	reader  *bufio.Reader
	plan    Plan
	request *http.Request
}

func (e *serverExchange) run() (keep bool) {
	request, err := http.ReadRequest(e.reader)
	if err != nil {
		e.unreadable(e.wire.cause(err))
		return false
	}
	e.request = request
	if !e.identify() {
		return false
	}
	e.server.ledger.count(ServerRequests)
	return e.checkHead() && e.serve()
}

// unreadable judges a head that cannot be read.
func (e *serverExchange) unreadable(err error) {
	switch {
	case isTimeout(err):
		e.fail("a head that never ends", &Failure{Got: string(e.wire.last)})
	case !isEnd(err):
		e.fail("not HTTP: "+err.Error(), &Failure{Got: string(e.wire.last)})
	}
}

// isEnd tells an end of the connection from bytes that are wrong.
func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// identify finds the plan and counts the request as seen.
func (e *serverExchange) identify() bool {
	_, text, _ := strings.Cut(strings.TrimPrefix(e.request.URL.Path, "/"), "/")
	id, err := ParseID(text)
	if err != nil {
		e.fail("a request without an identity: "+err.Error(), &Failure{Got: e.request.URL.Path})
		return false
	}
	e.plan = NewPlan(e.server.spec.Seed, id)
	if err := e.server.ledger.seen(id); err != nil {
		e.fail(err.Error(), nil)
		return false
	}
	return true
}

// checkHead compares the head with the one that the client sent.
func (e *serverExchange) checkHead() bool {
	target := e.plan.path()
	if e.server.spec.Direct {
		target = e.plan.asked()
	}
	length := map[string]int64{framingNone: 0, framingLength: int64(e.plan.RequestSize), framingChunked: -1}[e.plan.RequestFraming]
	checks := []struct{ what, got, want string }{
		{"method", e.request.Method, e.plan.Method},
		{"target", e.request.RequestURI, target},
		{idField, e.request.Header.Get(idField), e.plan.ID.String()},
		{paddingField, e.request.Header.Get(paddingField), paddingText(e.server.spec.Seed, e.plan.ID, requestBody, e.plan.RequestPadding)},
		{"length", fmt.Sprint(e.request.ContentLength), fmt.Sprint(length)},
	}
	for _, c := range checks {
		if c.got != c.want {
			e.fail("the head differs in "+c.what, &Failure{Want: c.want, Got: c.got})
			return false
		}
	}
	return true
}

// serve does what the plan says and tells whether the connection goes on.
func (e *serverExchange) serve() (keep bool) {
	switch e.plan.Server {
	case serverAnswersEarly:
		return e.respond() && e.readBody()
	case serverAnswersAndCloses:
		e.respond()
		return false
	case serverResetsAtOnce, serverClosesAtOnce:
		// Half of them before they read the body.
		if e.plan.ServerAt < 500 && !e.readBody() {
			return false
		}
		if e.plan.Server == serverResetsAtOnce {
			e.wire.reset()
		}
		return false
	}
	return e.readBody() && e.respond()
}

// readBody reads and compares the request's body.
func (e *serverExchange) readBody() (ok bool) {
	if e.request.Header.Get("Expect") != "" && e.plan.Server != serverAnswersEarly {
		if e.wire.send([]byte("HTTP/1.1 100 Continue\r\n\r\n"), nil) != nil {
			return false
		}
	}
	size := e.plan.RequestSize
	if e.plan.Upgrade {
		size = 0
	}
	v := newVerifier(e.server.spec.Seed, e.plan.ID, requestBody, size)
	_, err := io.Copy(v, e.request.Body)
	e.server.ledger.add(RequestBytes, v.seen)
	var wrong *mismatch
	switch {
	case errors.As(err, &wrong):
		e.fail("the body differs", &Failure{Offset: wrong.Offset, Want: string(wrong.Want), Got: string(wrong.Got)})
	case isTimeout(err):
		e.fail("a body that never ends", &Failure{Offset: v.seen})
	case err != nil && !isEnd(e.wire.cause(err)):
		e.fail("not HTTP: "+err.Error(), &Failure{Offset: v.seen, Got: string(e.wire.last)})
	case err == nil && v.seen < v.size:
		e.fail("a body that is short and ends cleanly", &Failure{Offset: v.seen, Want: fmt.Sprintf("%d bytes", v.size)})
	default:
		return err == nil
	}
	return false
}

// respond sends the response and tells whether the connection goes on.
func (e *serverExchange) respond() (keep bool) {
	m := e.plan.response(e.server.spec.Seed, e.server.spec.Name)
	at := part(len(m.bytes), e.plan.ServerAt)
	switch e.plan.Server {
	case serverResetsInResponse:
		if e.plan.Upgrade {
			break
		}
		_ = e.send(m.bytes[:at])
		e.wire.reset()
		return false
	case serverClosesInResponse:
		_ = e.send(m.bytes[:at])
		return false
	case serverStallsForEver:
		_ = e.send(m.bytes[:at])
		e.awaitEnd()
		return false
	case serverStalls:
		if e.send(m.bytes[:at]) != nil {
			return false
		}
		time.Sleep(e.plan.ServerPause)
		m.bytes = m.bytes[at:]
	case serverSendsMore:
		m.bytes = append(m.bytes, e.unasked(len(m.bytes))...)
	case serverInformsBeforehand:
		m.bytes = append(fmt.Appendf(nil, "HTTP/1.1 103 Early Hints\r\n%s: %s\r\n\r\n", idField, e.plan.ID), m.bytes...)
	}
	if e.send(m.bytes) != nil {
		return false
	}
	if e.plan.Upgrade {
		e.echo()
		return false
	}
	return e.behind()
}

// behind does what the plan wants behind a response.
func (e *serverExchange) behind() (keep bool) {
	switch e.plan.Server {
	case serverAnnouncesClose, serverClosesSilently:
		return false
	case serverSendsWhenIdle:
		// Sooner than a stall: the next request is soon on its way.
		time.Sleep(e.plan.ServerPause / 50)
		return e.send(noise) == nil
	}
	return e.plan.ResponseFraming != framingClose
}

// noise is no response, so whoever gets it in place of one can tell.
var noise = []byte("bytes of the chaos run that nobody asked for\r\n\r\n")

// atOnce is what one write on one host surely delivers together.
const atOnce = 2 << 10

// unasked is what a server sends behind its response in the same write. Where
// both surely arrive together it looks like another response: whoever takes it
// for one could have known better. Elsewhere a balancer might have sent the next
// request before, and could not.
func (e *serverExchange) unasked(size int) []byte {
	if !e.server.spec.SameHost || e.plan.ResponsePieces || size > atOnce {
		return noise
	}
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\n%s: unasked\r\nContent-Length: 0\r\n\r\n", idField)
}

// awaitEnd waits until the other side has gone.
func (e *serverExchange) awaitEnd() {
	if _, err := io.Copy(io.Discard, e.reader); isTimeout(err) {
		e.fail("a request without an answer that nobody ends", nil)
	}
}

func (e *serverExchange) send(b []byte) error {
	var random *rand.Rand
	if e.plan.ResponsePieces {
		random = rand.New(rand.NewPCG(e.plan.ID.key(e.server.spec.Seed, 'W'), 0))
	}
	err := e.wire.send(b, random)
	if isTimeout(err) {
		e.fail("a response that nobody reads or ends", nil)
	}
	return err
}

func (e *serverExchange) fail(what string, f *Failure) {
	if f == nil {
		f = &Failure{}
	}
	f.Side, f.What, f.ID, f.Server, f.Plan = "server", what, e.plan.ID, e.server.spec.Name, &e.plan
	f.Got = strings.ToValidUTF8(f.Got, "\uFFFD")
	e.server.ledger.fail(f)
}

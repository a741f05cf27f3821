// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What servers do with a request.
const (
	// ActAnswers reads the body, then answers; ActLate takes its time in between.
	ActAnswers = "answers"
	ActLate    = "late"
	// These answer before they have read the body, and go on reading it: at its beginning, or in the middle.
	ActEarly    = "early"
	ActEarlyMid = "early-mid"
	// ActInforms says something beforehand (103).
	ActInforms = "informs"
	// ActTunnel switches protocols: then both sides send at once.
	ActTunnel = "tunnel"
	// ActNever answers nothing.
	ActNever = "never"
	// ActTwice says something more, behind the response; only liars do.
	ActTwice = "twice"
	// These close, or reset: before the body, in it, behind it, in the response's head, in its body, and behind it, having
	// said so or not.
	ActEndsBeforeBody  = "ends-before-body"
	ActEndsInBody      = "ends-in-body"
	ActEndsAfterBody   = "ends-after-body"
	ActEndsInHead      = "ends-in-head"
	ActEndsInReply     = "ends-in-reply"
	ActEndsAfter       = "ends-after"
	ActClosesAnnounced = "closes-announced"
	// These answer as servers of HTTP/1.0 do, or without a length, and close: the close ends the response.
	ActOld      = "1.0"
	ActUnframed = "unframed"
	// The same before they have read the body, or in the middle of it: they read no more.
	ActEarlyOld         = "early-1.0"
	ActEarlyUnframed    = "early-unframed"
	ActEarlyMidOld      = "early-mid-1.0"
	ActEarlyMidUnframed = "early-mid-unframed"
)

// isOld tells whether a server answers by HTTP/1.0, isUnframed whether nothing but its close ends the response.
func isOld(act string) bool {
	return slices.Contains([]string{ActOld, ActEarlyOld, ActEarlyMidOld}, act)
}

func isUnframed(act string) bool {
	return slices.Contains([]string{ActUnframed, ActEarlyUnframed, ActEarlyMidUnframed}, act)
}

// HonestActs end in a whole response. A tunnel is what a kind of clients asks for.
var HonestActs = []string{ActAnswers, ActLate, ActEarly, ActEarlyMid, ActInforms, ActClosesAnnounced, ActOld, ActUnframed}

// AllActs are those of servers that do not lie: one that answers twice says what nobody has asked.
var AllActs = append([]string{
	ActEarlyOld, ActEarlyUnframed, ActEarlyMidOld, ActEarlyMidUnframed,
	ActNever, ActEndsBeforeBody, ActEndsInBody, ActEndsAfterBody, ActEndsInHead, ActEndsInReply, ActEndsAfter,
}, HonestActs...)

// How servers send.
const (
	PiecesOne   = "one"
	PiecesTwo   = "two" // the head, and the body
	PiecesMany  = "many"
	PiecesBytes = "bytes"
	PiecesDust  = "dust" // each byte of the body on its own, however many
	// PiecesUrgent sends some out of band; only liars do.
	PiecesUrgent = "urgent"
)

// AllPieces are the ways.
var AllPieces = []string{PiecesOne, PiecesTwo, PiecesMany, PiecesBytes}

// ServerSpec describes a server.
type ServerSpec struct {
	// Address to listen at; port 0 is any.
	Address string
	Name    string
	Seed    uint64
	// Directory of the run.
	Directory, Phase string
	// Patience bounds each wait for bytes of a message that has begun.
	Patience time.Duration
	// Confine is where the process puts itself before it opens sockets.
	Confine Confinement
	// ReceiveBuffer and SendBuffer are set on the listener if they are not 0.
	ReceiveBuffer, SendBuffer int
	// Stingy servers read so many bytes of a body, and then nothing for the Pause, or, if that is 0, any more; 0: all.
	Stingy int
	Pause  time.Duration
	// Blind is the longest time after a response at which the server closes a part of its connections, whatever comes on them; 0: never.
	Blind time.Duration
	// Prompt is the same within the time that a client takes to ask again: the server's own task closes, and does nothing else until then.
	Prompt time.Duration
}

// Server does what requests ask it to.
type Server struct {
	spec     ServerSpec
	listener net.Listener
	*book

	mu   sync.Mutex // guards open
	open map[net.Conn]bool
}

// Listen opens the server's listener.
func Listen(spec ServerSpec) (*Server, error) {
	if err := spec.Confine.enter(); err != nil {
		return nil, err
	}
	b, err := openBook(spec.Directory, spec.Seed, "server", spec.Name, spec.Phase)
	if err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		controlled := raw.Control(func(fd uintptr) { err = setBuffers(int(fd), spec.SendBuffer, spec.ReceiveBuffer) })
		return errors.Join(controlled, err)
	}}
	listener, err := config.Listen(context.Background(), "tcp", spec.Address)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", spec.Address, err)
	}
	return &Server{spec: spec, listener: listener, book: b, open: map[net.Conn]bool{}}, nil
}

func setBuffers(fd, send, receive int) error {
	var first, second error
	if send > 0 {
		first = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, send)
	}
	if receive > 0 {
		second = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receive)
	}
	return errors.Join(first, second)
}

// Address is where it listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Report is what it has counted.
func (s *Server) Report() Report { return s.report() }

// Serve serves until the listener is closed.
func (s *Server) Serve() error {
	for {
		conn, err := s.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ECONNABORTED):
			// Descriptors come back when connections end.
			time.Sleep(time.Millisecond)
			continue
		case err != nil:
			return fmt.Errorf("accept: %w", err)
		}
		s.mu.Lock()
		s.open[conn] = true
		s.mu.Unlock()
		go s.serve(conn.(*net.TCPConn))
	}
}

// Close ends the listener, and what is open.
func (s *Server) Close() {
	s.listener.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.open {
		conn.Close()
	}
}

// session is one connection to the server.
type session struct {
	*Server
	conn   *net.TCPConn
	seen   *witness
	reader *bufio.Reader
	// done are the requests that it has served.
	done  int
	id    ID
	order Order
}

func (s *Server) serve(conn *net.TCPConn) {
	seen := &witness{Reader: conn}
	c := &session{Server: s, conn: conn, seen: seen, reader: bufio.NewReaderSize(seen, maxHead)}
	for c.exchange() {
		c.done++
	}
	conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, conn)
}

// violation tells what is wrong, with the bytes around it.
func (c *session) violation(what string, v Violation, near []byte) {
	// More may name the owner: what is on its way comes at once.
	_ = c.conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n := c.reader.Buffered(); n < shownBytes {
		_, _ = c.reader.Peek(min(shownBytes, c.reader.Size()))
	}
	behind, _ := c.reader.Peek(min(c.reader.Buffered(), shownBytes))
	v.What, v.Order = fmt.Sprintf("%s, request %d of the connection", what, c.done), c.order.String()
	if v.ID == "" {
		v.ID = c.id.String()
	}
	v.Foreign = owner(slices.Concat(near, behind), c.id)
	v.Got = fmt.Sprintf("%q", slices.Concat(near[:min(len(near), shownBytes)], behind))
	c.violate(v)
}

// exchange serves one request, and tells whether the connection goes on.
func (c *session) exchange() bool {
	// Nobody need ask.
	_ = c.conn.SetReadDeadline(time.Time{})
	if _, err := c.reader.Peek(1); err != nil {
		return false
	}
	c.patient()
	lines, err := readHead(c.reader)
	if err != nil {
		return c.noHead(err, []byte(strings.Join(lines, "\r\n")))
	}
	if !c.judgeHead(lines) {
		return false
	}
	c.count(Exchanges)
	c.count("kind " + c.order.Kind)
	c.count("act " + c.order.Act)
	return c.act()
}

func (c *session) patient() { _ = c.conn.SetDeadline(time.Now().Add(c.spec.Patience)) }

// noHead tells of what came in place of a head.
func (c *session) noHead(err error, begun []byte) bool {
	var wrong *mismatch
	c.order = Order{}
	switch {
	case errors.As(err, &wrong):
		c.violation("no request: "+wrong.Error(), Violation{}, wrong.Got)
	case isTimeout(err):
		c.violation("a head that never ends", Violation{Timed: true}, begun)
	case !beginsAsRequest(begun):
		c.violation("bytes that are no request", Violation{}, begun)
	default:
		c.count("heads cut short")
	}
	return false
}

// last are the bytes that came last.
func (c *session) last() []byte { return c.seen.last[max(0, len(c.seen.last)-shownBytes):] }

// beginsAsRequest tells whether b may be the beginning of a head that somebody gave up.
func beginsAsRequest(b []byte) bool {
	for _, method := range []string{"GET ", "POST "} {
		want := method + Prefix
		n := min(len(b), len(want))
		if string(b[:n]) == want[:n] {
			return true
		}
	}
	return false
}

// judgeHead compares the head with the one that the client has sent.
func (c *session) judgeHead(lines []string) bool {
	line := ""
	if len(lines) > 0 {
		line = lines[0]
	}
	before := c.id
	c.order = Order{}
	text := []byte(strings.Join(lines, "\r\n"))
	parts := strings.Split(line, " ")
	if len(parts) != 3 || parts[2] != "HTTP/1.1" || !slices.Contains([]string{"GET", "POST"}, parts[0]) {
		c.violation(fmt.Sprintf("bytes that are no request, behind %s", before), Violation{ID: before.String()}, text)
		return false
	}
	name, public := strings.CutPrefix(parts[1], Prefix)
	id, ok := parseID(name)
	if !public || !ok {
		c.violation(fmt.Sprintf("a request that no route allows, behind %s", before), Violation{ID: before.String()}, text)
		return false
	}
	c.id = id
	order, ok := parseOrder(field(lines, orderField))
	if !ok || field(lines, idField) != id.String() {
		c.violation("a head of more than one owner", Violation{}, text)
		return false
	}
	c.order = order
	want := order
	b, body := want.request(c.spec.Seed, id)
	wanted := strings.Split(strings.TrimSuffix(string(b[:body]), "\r\n\r\n"), "\r\n")
	if order.Act == ActTunnel {
		lines, wanted = slices.DeleteFunc(lines, betweenNeighbours), slices.DeleteFunc(wanted, betweenNeighbours)
	}
	if missing := differentLines(lines, wanted); missing != "" {
		c.violation("the head differs: "+missing, Violation{}, text)
		return false
	}
	return true
}

// betweenNeighbours are the fields that a balancer writes anew where it switches protocols.
func betweenNeighbours(line string) bool {
	return strings.HasPrefix(strings.ToLower(line), "connection:") || strings.HasPrefix(strings.ToLower(line), "upgrade:")
}

// differentLines names a line that is in one head alone; a balancer may put them in another order.
func differentLines(got, want []string) string {
	sort.Strings(got)
	sort.Strings(want)
	for _, w := range want {
		if !slices.Contains(got, w) {
			return "without " + w
		}
	}
	for _, g := range got {
		if !slices.Contains(want, g) {
			return "with " + g
		}
	}
	return ""
}

// act does what the request asks for, and tells whether the connection goes on.
func (c *session) act() bool {
	b := newBody(c.reader, newStream(c.spec.Seed, c.id, requestBytes), c.order.BodyChunked, c.order.Body)
	// A large body takes longer than anybody waits, where memory and processor are short.
	b.moved = c.patient
	if c.order.Garbled {
		b.mixed = c.order.Kind != KindUrgent
		b.lacks = 64
	}
	middle := b.size * int64(c.order.At) / 1000
	if c.spec.Stingy > 0 && b.size > int64(c.spec.Stingy) {
		if !c.read(b.readTo(int64(c.spec.Stingy)), b) {
			return false
		}
		if c.spec.Pause == 0 {
			c.awaitEnd()
			return false
		}
		time.Sleep(c.spec.Pause)
		c.patient()
	}
	switch c.order.Act {
	case ActTunnel:
		c.tunnel()
		return false
	case ActEarly:
		return c.respond() && c.readBody(b)
	case ActEarlyMid:
		return c.read(b.readTo(middle), b) && c.respond() && c.readBody(b)
	case ActEarlyOld, ActEarlyUnframed:
		return c.respond() && c.end()
	case ActEarlyMidOld, ActEarlyMidUnframed:
		return c.read(b.readTo(middle), b) && c.respond() && c.end()
	case ActEndsBeforeBody:
		return c.end()
	case ActEndsInBody:
		c.read(b.readTo(middle), b)
		return c.end()
	}
	if !c.readBody(b) {
		return false
	}
	switch c.order.Act {
	case ActNever:
		c.awaitEnd()
		return false
	case ActEndsAfterBody:
		return c.end()
	case ActLate:
		time.Sleep(time.Duration(c.order.At) * 20 * time.Microsecond)
	case ActInforms:
		if _, err := fmt.Fprintf(c.conn, "HTTP/1.1 103 Early Hints\r\n%s: %s\r\n\r\n", idField, c.id); err != nil {
			return false
		}
	}
	if !c.respond() {
		return false
	}
	if c.closesPromptly() {
		return c.end()
	}
	c.closeBlindly()
	switch c.order.Act {
	case ActTwice:
		_, err := fmt.Fprintf(c.conn, "HTTP/1.1 200 OK\r\n%s: %s\r\nContent-Length: 0\r\n\r\n", idField, c.id)
		return err == nil
	case ActEndsAfter:
		return c.end()
	case ActClosesAnnounced, ActOld, ActUnframed:
		return false
	}
	return true
}

// blindCloses is of how many responses one is followed by a blind close.
const blindCloses = 4

// closeBlindly closes the connection soon, without a look at what comes: the next request may be on its way, or half served.
func (c *session) closeBlindly() {
	if c.spec.Blind == 0 || rand.IntN(blindCloses) > 0 {
		return
	}
	c.count("blind closes")
	reset := c.order.At%2 == 0
	// Short times are as likely as long ones.
	soon := time.Duration(1) << rand.IntN(bits.Len64(uint64(c.spec.Blind)))
	time.AfterFunc(rand.N(soon), func() {
		if reset {
			_ = c.conn.SetLinger(0)
		}
		c.conn.Close()
	})
}

// promptCloses is of how many responses one is followed by a prompt close.
const promptCloses = 2

// closesPromptly tells whether the connection is to be closed, when the moment has come. A timer would be late by as much as a client takes to ask
// again.
func (c *session) closesPromptly() bool {
	if c.spec.Prompt == 0 || rand.IntN(promptCloses) > 0 {
		return false
	}
	c.count("prompt closes")
	wait := rand.N(c.spec.Prompt)
	for began := time.Now(); time.Since(began) < wait; {
	}
	return true
}

// end closes the connection, or resets it.
func (c *session) end() bool {
	if c.order.At%2 == 0 {
		_ = c.conn.SetLinger(0)
	}
	return false
}

func (c *session) readBody(b *body) bool {
	if !b.chunked && b.size == 0 {
		return true
	}
	c.patient()
	return c.read(b.finish(), b)
}

// read judges how reading has ended.
func (c *session) read(err error, b *body) bool {
	c.add("request bytes", b.seen)
	var wrong *mismatch
	switch {
	case err == nil:
		return true
	case errors.As(err, &wrong) && c.order.Garbled && owner(wrong.Got, c.id) == "":
		c.count("bodies that are garbled")
	case errors.As(err, &wrong):
		c.violation(wrong.what, Violation{Offset: wrong.Offset, Want: fmt.Sprintf("%q", wrong.Want)}, wrong.Got)
	case isTimeout(err) && !c.order.Garbled:
		c.violation("a body that never ends", Violation{Timed: true, Offset: b.seen}, c.last())
	case isTimeout(err), isEnd(err):
		c.count("bodies cut short")
	case c.order.Garbled:
		c.count("bodies that are garbled")
	default:
		c.violation("a body that is malformed: "+err.Error(), Violation{Offset: b.seen}, c.last())
	}
	return false
}

// awaitEnd waits until the other side has gone; nothing may come meanwhile.
func (c *session) awaitEnd() {
	_ = c.conn.SetReadDeadline(time.Now().Add(4 * c.spec.Patience))
	if c.spec.Stingy > 0 {
		// It reads nothing any more: the end shows as an error alone.
		for c.alive() {
			time.Sleep(20 * time.Millisecond)
		}
		return
	}
	// What a liar has said before may have been taken for the answer.
	if rest, err := c.reader.Peek(1); err == nil && c.id.Process < FirstLiar {
		c.violation("a request before the one before is answered", Violation{}, rest)
	}
}

// alive asks the socket without reading from it.
func (c *session) alive() (alive bool) {
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		_, _ = unix.Poll(fds, 0)
		alive = fds[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) == 0
	})
	return err == nil && alive
}

// respond sends the response, or as much of it as the order says.
func (c *session) respond() bool {
	b, head := c.order.response(c.spec.Seed, c.id)
	switch c.order.Act {
	case ActEndsInHead:
		_ = c.send(b[:head*c.order.At/1000], 0)
		return c.end()
	case ActEndsInReply:
		_ = c.send(b[:head+(len(b)-head)*c.order.At/1000], head)
		return c.end()
	}
	c.patient()
	return c.send(b, head) == nil
}

// singleBytes bounds how many sends of one byte each a message takes.
const singleBytes = 400

func (c *session) send(b []byte, head int) error {
	if head == 0 || head > len(b) {
		head = len(b)
	}
	random := rand.New(rand.NewPCG(c.id.key(c.spec.Seed, choices), 1))
	for at := 0; at < len(b); {
		n := len(b) - at
		switch {
		case (c.order.Pieces == PiecesTwo || c.order.Pieces == PiecesDust) && at == 0:
			n = head
		case c.order.Pieces == PiecesMany && at < 64<<10:
			n = min(n, 1+random.IntN(1<<(1+random.IntN(14))))
		case c.order.Pieces == PiecesBytes && at < singleBytes, c.order.Pieces == PiecesDust:
			n = 1
		}
		if c.order.Pieces == PiecesUrgent {
			n = min(n, 1+random.IntN(100))
			if err := c.sendUrgent(b[at : at+n]); err != nil {
				return err
			}
		} else if _, err := c.conn.Write(b[at : at+n]); err != nil {
			return err
		}
		at += n
	}
	c.add("response bytes", int64(len(b)))
	return nil
}

// sendUrgent sends the last byte out of band.
func (c *session) sendUrgent(b []byte) error {
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		var n int
		n, failed = unix.SendmsgN(int(fd), b, nil, nil, unix.MSG_OOB|unix.MSG_NOSIGNAL)
		b = b[max(n, 0):]
		return !errors.Is(failed, unix.EAGAIN) && (failed != nil || len(b) == 0)
	})
	return errors.Join(err, failed)
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// isEnd tells an end of the connection from bytes that are wrong.
func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

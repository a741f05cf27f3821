// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ClientSpec describes a process of clients.
type ClientSpec struct {
	// Address of the service.
	Address   string
	Seed      uint64
	Process   uint32
	Directory string
	Phase     string
	// Workers have a connection each.
	Workers int
	// Requests that each worker makes; 0: until the process is told to end.
	Requests int
	// PerConnection is how many requests a connection carries at most; 0: no bound.
	PerConnection int
	// Kinds and Acts are drawn from, as are Pieces; sizes of bodies up to the bounds.
	Kinds, Acts, Pieces []string
	// Body and Reply are the least and the largest sizes; -1 is a request without a body.
	Body, Reply [2]int
	// ChunkedBodies and ChunkedReplies are so many of a hundred.
	ChunkedBodies, ChunkedReplies int
	// Patience bounds each wait; what takes longer hangs.
	Patience time.Duration
	// Path is the prefix that requests have in place of the one that endpoints know; "": that.
	Path string
	// Fixed is the only body that an endpoint has which knows nothing of orders; "" is a server of this package.
	Fixed string
	// Sockets.
	SendBuffer, ReceiveBuffer, NotSentLowat int
	// Sip is how many bytes are read at a time, with a pause in between; 0: as they come.
	Sip int
	// Gap is the longest pause between the sends of one request, where a kind makes several.
	Gap time.Duration
	// MayHang: what lacks something else than bytes does not come, and nobody is to blame.
	MayHang bool
	// MayBreak: the scene itself ends connections, for instance by killing servers.
	MayBreak bool
	Confine  Confinement
}

// Clients are the workers of a process.
type Clients struct {
	spec ClientSpec
	to   unix.SockaddrInet4
	// heir sends for others, where a kind asks for it.
	heir *Heir
	*book

	mu    sync.Mutex // guards conns
	conns uint32
}

// NewClients gets ready. heir is the command that runs an heir.
func NewClients(spec ClientSpec, heir *exec.Cmd) (*Clients, error) {
	if err := spec.Confine.enter(); err != nil {
		return nil, err
	}
	// Those of a storm are nobody's.
	signal.Notify(make(chan os.Signal, 1), unix.SIGUSR1, unix.SIGALRM)
	b, err := openBook(spec.Directory, spec.Seed, "client", fmt.Sprintf("%04x", spec.Process), spec.Phase)
	if err != nil {
		return nil, err
	}
	address, err := netip.ParseAddrPort(spec.Address)
	if err != nil {
		return nil, err
	}
	c := &Clients{spec: spec, book: b, to: unix.SockaddrInet4{Port: int(address.Port()), Addr: address.Addr().As4()}}
	if slices.Contains(spec.Kinds, KindPassed) {
		c.heir, err = StartHeir(heir)
	}
	return c, err
}

// Report is what has been counted.
func (c *Clients) Report() Report { return c.report() }

// Run returns when all workers have made their requests, or soon after the context has ended.
func (c *Clients) Run(ctx context.Context) {
	var running sync.WaitGroup
	for range c.spec.Workers {
		running.Go(func() { c.work(ctx) })
	}
	running.Wait()
}

func (c *Clients) work(ctx context.Context) {
	made := 0
	for ctx.Err() == nil && (c.spec.Requests == 0 || made < c.spec.Requests) {
		conn, err := c.dial()
		if err != nil {
			c.count("not connected")
			made++
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
			continue
		}
		made += conn.work(ctx, made)
		conn.close()
	}
}

// conn is one connection.
type conn struct {
	*Clients
	fd    int
	id    ID
	order Order
	// before is the act of the exchange before.
	before string
	random *rand.Rand
	socket *socket
	// lent is memory that the kernel sends from.
	lent   [][]byte
	seen   *witness
	reader *bufio.Reader
}

func (c *Clients) dial() (*conn, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := c.prepare(fd); err != nil {
		unix.Close(fd)
		return nil, err
	}
	if err := connect(fd, &c.to); err != nil {
		unix.Close(fd)
		return nil, err
	}
	c.mu.Lock()
	c.conns++
	id := ID{Process: c.spec.Process, Conn: c.conns}
	c.mu.Unlock()
	n := &conn{Clients: c, fd: fd, id: id}
	n.listen()
	return n, nil
}

// listen forgets what has been read.
func (c *conn) listen() {
	c.socket = &socket{c.fd, c.spec.Sip, c.spec.Patience - time.Millisecond}
	c.seen = &witness{Reader: c.socket}
	c.reader = bufio.NewReaderSize(c.seen, maxHead)
}

// connect is not interrupted.
func connect(fd int, to unix.Sockaddr) error {
	for {
		err := unix.Connect(fd, to)
		switch {
		case errors.Is(err, unix.EISCONN):
			return nil
		case !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EALREADY):
			return err
		}
	}
}

func (c *Clients) prepare(fd int) error {
	timeout := unix.NsecToTimeval(c.spec.Patience.Nanoseconds())
	errs := []error{
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout),
		setBuffers(fd, c.spec.SendBuffer, c.spec.ReceiveBuffer),
	}
	if c.spec.NotSentLowat > 0 {
		errs = append(errs, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, c.spec.NotSentLowat))
	}
	return errors.Join(errs...)
}

// socket reads a blocking socket.
type socket struct {
	fd, sip int
	// patience is that of the socket. A socket with a program wakes its reader, and says EAGAIN, for more than bytes: when the FIN is
	// acknowledged, for instance.
	patience time.Duration
}

func (s *socket) Read(p []byte) (int, error) {
	if s.sip > 0 {
		p = p[:min(len(p), s.sip)]
		time.Sleep(100 * time.Microsecond)
	}
	for began := time.Now(); ; {
		n, err := unix.Read(s.fd, p)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN) && time.Since(began) < s.patience:
			continue
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// close leaves pages that are being sent to the kernel.
func (c *conn) close() {
	unix.Close(c.fd)
	for _, m := range c.lent {
		_ = unix.Munmap(m)
	}
}

// reset closes so that the other side sees a reset.
func (c *conn) reset() {
	_ = unix.SetsockoptLinger(c.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}

// work makes requests on the connection, and returns how many.
func (c *conn) work(ctx context.Context, before int) (made int) {
	for ctx.Err() == nil {
		if c.spec.Requests > 0 && before+made >= c.spec.Requests || c.spec.PerConnection > 0 && made >= c.spec.PerConnection {
			return made
		}
		c.id.Request++
		c.random = rand.New(rand.NewPCG(c.id.key(c.spec.Seed, choices), 0))
		c.draw()
		made++
		if !c.exchange() {
			return made
		}
	}
	return made
}

// draw chooses what the exchange is like.
func (c *conn) draw() {
	r, s := c.random, &c.spec
	c.before = c.order.Act
	c.order = Order{
		Kind: pick(r, s.Kinds), Act: pick(r, s.Acts), Pieces: pick(r, s.Pieces),
		Body: size(r, s.Body), Reply: size(r, s.Reply), At: r.IntN(1000), Pad: 8 + r.IntN(64),
	}
	c.order.BodyChunked = c.order.Body >= 0 && r.IntN(100) < s.ChunkedBodies
	c.order.ReplyChunked = r.IntN(100) < s.ChunkedReplies
	c.order.Garbled = slices.Contains(garbledKinds, c.order.Kind)
	if isOld(c.order.Act) || isUnframed(c.order.Act) {
		c.order.ReplyChunked = false
	}
	switch {
	case c.order.Kind == KindSmuggler:
		c.order.Body, c.order.BodyChunked = 0, true
	case c.order.Kind == KindTunnel:
		c.order.Act, c.order.BodyChunked, c.order.ReplyChunked = ActTunnel, false, false
	case c.order.Garbled && c.order.Kind != KindUrgent:
		// Chunks would be torn, and say anything.
		c.order.BodyChunked = false
	}
}

func pick(r *rand.Rand, from []string) string {
	if len(from) == 0 {
		return "one"
	}
	return from[r.IntN(len(from))]
}

// size is between the bounds, small ones as likely as large ones.
func size(r *rand.Rand, of [2]int) int {
	if of[0] >= of[1] {
		return of[0]
	}
	span := of[1] - of[0]
	bits := 1
	for 1<<bits <= span {
		bits++
	}
	return of[0] + min(span, r.IntN(1<<(1+r.IntN(bits))))
}

// honest tells whether nothing in the exchange excuses a failure.
func (c *conn) honest() bool {
	honest := c.order.Act == ActTunnel || slices.Contains(HonestActs, c.order.Act)
	return !c.order.Garbled && honest && c.spec.Process < FirstLiar
}

// shortPatience is for answers that need not come. It is longer than a route's timeout.
const shortPatience = 4 * time.Second

// losePatience waits less long where an answer need not come.
func (c *conn) losePatience() {
	if c.honest() || c.socket.patience < shortPatience {
		return
	}
	c.socket.patience = shortPatience - time.Millisecond
	timeout := unix.NsecToTimeval(shortPatience.Nanoseconds())
	_ = unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout)
	_ = unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout)
}

// exchange makes one request, and tells whether the connection goes on.
func (c *conn) exchange() bool {
	c.count(Exchanges)
	c.losePatience()
	request, body := c.request()
	if c.spec.Fixed != "" {
		// Its endpoint waits for no body.
		c.order.Act = ActEarly
	}
	sent := make(chan error, 1)
	leave := leaving[c.order.Kind]
	if c.honest() && leave == nil {
		c.count(Honest)
	}
	if len(request)-body <= 0 && leave == nil {
		sent <- c.send(request, body)
	} else {
		go func() { sent <- c.send(request, body) }()
	}
	if leave != nil {
		return leave(c, sent)
	}
	ok := c.receive()
	err := <-sent
	switch {
	case !ok:
		return false
	case err == nil:
		// To what is garbled more answers may come.
		return c.quiet() && !c.order.Garbled
	case errors.Is(err, unix.EAGAIN) && c.honest():
		c.violation("a request that nobody takes", Violation{}, nil)
	default:
		c.count("answered, but not sent: " + err.Error())
	}
	return false
}

// request renders the request as the client sends it.
func (c *conn) request() (b []byte, body int) {
	b, body = c.order.request(c.spec.Seed, c.id)
	if c.spec.Path == "" {
		return b, body
	}
	head := bytes.Replace(b[:body], []byte(" "+Prefix), []byte(" "+c.spec.Path), 1)
	return slices.Concat(head, b[body:]), len(head)
}

// receive reads the response, and tells whether it is right.
func (c *conn) receive() bool {
	lines, status, ok := c.head()
	text := []byte(strings.Join(lines, "\r\n"))
	switch {
	case !ok:
		return false
	case status == 103:
		if name := field(lines, idField); name != c.id.String() {
			c.violation("what is said beforehand to another", Violation{}, text)
			return false
		}
		return c.receive()
	}
	if c.spec.Fixed != "" && status == 200 {
		return c.receiveFixed(lines, text)
	}
	name := field(lines, idField)
	switch {
	case name == "":
		return c.local(status, lines, text)
	case name != c.id.String():
		c.violation("the response of another", Violation{}, text)
		return false
	}
	return c.compare(lines, text)
}

// FirstLiar is the first number of processes whose endpoints lie: what these say unasked is nobody's, but who asks at this moment gets it.
const FirstLiar = 0x8000

// saidUnasked tells whether a name may be that of another's response, said unasked.
func (c *conn) saidUnasked(name string) bool {
	id, ok := parseID(name)
	return ok && id.Process >= FirstLiar && name != c.id.String()
}

// head reads that of a response.
func (c *conn) head() (lines []string, status int, ok bool) {
	lines, err := readHead(c.reader)
	if err != nil {
		c.broken("in the head", err, strings.Join(lines, ""))
		return nil, 0, false
	}
	if status, ok = parseStatus(lines); !ok {
		c.violation("bytes that are no response", Violation{}, []byte(strings.Join(lines, "\r\n")))
	}
	return lines, status, ok
}

// beginsAsResponse tells whether b may be the beginning of a response.
func beginsAsResponse(b []byte) bool {
	const version = "HTTP/1.1 "
	n := min(len(b), len(version))
	return string(b[:n]) == version[:n]
}

// parseStatus reads the status of a response.
func parseStatus(lines []string) (int, bool) {
	if len(lines) == 0 || !strings.HasPrefix(lines[0], "HTTP/1.1 ") || len(lines[0]) < 12 {
		return 0, false
	}
	status, err := strconv.Atoi(lines[0][9:12])
	return status, err == nil
}

// compare compares a response of ours.
func (c *conn) compare(lines []string, text []byte) bool {
	b, body := c.order.response(c.spec.Seed, c.id)
	// Whether the connection ends is between neighbours: the endpoint's may, and this one, when an answer came before the request was whole.
	closes := slices.Contains(lines, closing)
	want := strings.Split(strings.TrimSuffix(string(b[:body]), "\r\n\r\n"), "\r\n")
	// So is the version.
	want[0] = strings.Replace(want[0], "HTTP/1.0 ", "HTTP/1.1 ", 1)
	isClosing := func(l string) bool { return l == closing }
	lines, want = slices.DeleteFunc(lines, isClosing), slices.DeleteFunc(want, isClosing)
	chunked := c.order.ReplyChunked
	if isUnframed(c.order.Act) {
		// A balancer may end it by chunks.
		chunked = slices.Contains(lines, chunkedCoding)
		lines = slices.DeleteFunc(lines, func(l string) bool { return l == chunkedCoding })
	}
	if different := differentLines(lines, want); different != "" {
		c.violation("the response's head differs: "+different, Violation{}, text)
		return false
	}
	r := newBody(c.reader, newStream(c.spec.Seed, c.id, responseBytes), chunked, c.order.Reply)
	err := r.finish()
	c.add("response bytes", r.seen)
	var wrong *mismatch
	switch {
	case errors.As(err, &wrong):
		c.violation("of the response "+wrong.what, Violation{Offset: wrong.Offset, Want: fmt.Sprintf("%q", wrong.Want)}, wrong.Got)
		return false
	case err != nil:
		c.broken("in the body", err, "")
		return false
	}
	c.count(Right)
	if c.honest() && leaving[c.order.Kind] == nil {
		c.count(HonestRight)
	}
	// Without chunks the response ends with the connection.
	return !closes && (chunked || !isUnframed(c.order.Act))
}

const (
	closing       = "Connection: close"
	chunkedCoding = "Transfer-Encoding: chunked"
)

// receiveFixed compares the only body that there is.
func (c *conn) receiveFixed(lines []string, text []byte) bool {
	length, err := strconv.Atoi(field(lines, "Content-Length"))
	if err != nil || length != len(c.spec.Fixed) {
		c.violation("a response of another length", Violation{}, text)
		return false
	}
	got := make([]byte, length)
	if _, err := io.ReadFull(c.reader, got); err != nil {
		c.broken("in the body", err, "")
		return false
	}
	if string(got) != c.spec.Fixed {
		c.violation("the response differs", Violation{Want: c.spec.Fixed}, got)
		return false
	}
	c.count(Right)
	return field(lines, "Connection") != "close"
}

// mayRefuse are the statuses with which a balancer answers a request that is right in an endpoint's place.
var mayRefuse = []int{502, 503, 504}

// local judges a response that is of no server of ours.
func (c *conn) local(status int, lines []string, text []byte) bool {
	c.count(fmt.Sprintf("local %d", status))
	foreign := c.spec.Fixed != "" && field(lines, "Server") != ""
	if foreign || !c.order.Garbled && !slices.Contains(mayRefuse, status) {
		c.violation(fmt.Sprintf("a request that is right is answered with %d", status), Violation{}, text)
		return false
	}
	length, err := strconv.Atoi(field(lines, "Content-Length"))
	if err != nil || field(lines, "Connection") == "close" {
		return false
	}
	_, err = c.reader.Discard(length)
	// What is left of the request may be under way still.
	return err == nil && c.order.Body <= 0
}

// broken judges a response that does not end.
func (c *conn) broken(where string, err error, begun string) {
	var wrong *mismatch
	switch {
	case errors.As(err, &wrong):
		c.violation("no response: "+wrong.Error(), Violation{}, wrong.Got)
	case !beginsAsResponse([]byte(begun)):
		c.violation("bytes that are no response", Violation{}, []byte(begun))
	case errors.Is(err, unix.EAGAIN):
		if c.honest() && !c.spec.MayHang {
			c.violation("an exchange that hangs "+where, Violation{Timed: true}, []byte(begun))
		}
		c.count("hung " + where)
	case isEnd(err), errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
		if begun == "" && where == "in the head" && c.mustBeAnswered() {
			c.violation("an exchange without an answer: "+err.Error(), Violation{}, nil)
		}
		c.count("broken " + where)
	default:
		c.violation(fmt.Sprintf("not to be read %s: %v", where, err), Violation{}, nil)
	}
}

// mustBeAnswered tells whether nothing excuses an end without an answer. A server that closes is no excuse: the balancer answers in its place. An
// early answer to the request before is one: where its server does not take the rest of that, the balancer ends the connection, as Envoy does.
func (c *conn) mustBeAnswered() bool {
	return c.honest() && leaving[c.order.Kind] == nil && !c.spec.MayBreak && c.before != ActEarly && c.before != ActEarlyMid
}

// quiet tells whether nothing follows a response.
func (c *conn) quiet() bool {
	rest, _ := c.reader.Peek(c.reader.Buffered())
	if len(rest) == 0 {
		b := make([]byte, shownBytes)
		n, _, err := unix.Recvfrom(c.fd, b, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if err != nil || n <= 0 {
			return errors.Is(err, unix.EAGAIN)
		}
		rest = b[:n]
	}
	if c.order.Garbled && owner(rest, c.id) == "" {
		c.count("more answers to what is garbled")
		return false
	}
	c.violation("bytes behind the response", Violation{}, rest)
	return false
}

// excuse forgives the end of a connection for which the balancer lacks something: it may have none for the rest of a request.
func (c *Clients) excuse(err error) error {
	if !c.spec.MayHang || !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) {
		return err
	}
	c.count("not sent: " + err.Error())
	return nil
}

// port is the client's own, by which the daemon's log names the connection; 0 where the socket has none any more.
func (c *conn) port() int {
	name, err := unix.Getsockname(c.fd)
	if at, ok := name.(*unix.SockaddrInet4); err == nil && ok {
		return at.Port
	}
	return 0
}

// violation tells what is wrong, with the bytes around it.
func (c *conn) violation(what string, v Violation, near []byte) {
	soon := unix.NsecToTimeval((50 * time.Millisecond).Nanoseconds())
	_ = unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &soon)
	if c.reader.Buffered() < shownBytes {
		_, _ = c.reader.Peek(shownBytes)
	}
	behind, _ := c.reader.Peek(min(c.reader.Buffered(), shownBytes))
	v.What, v.ID, v.Order = what, c.id.String(), c.order.String()
	if v.Foreign == "" {
		v.Foreign = owner(slices.Concat(near, behind), c.id)
	}
	if c.spec.Process >= FirstLiar && (v.Foreign == "" || c.saidUnasked(v.Foreign[:idLength])) {
		c.count("oddities of liars")
		return
	}
	v.Got = fmt.Sprintf("%q", slices.Concat(near[:min(len(near), shownBytes)], behind))
	v.Before, v.Port = c.before, c.port()
	c.violate(v)
}

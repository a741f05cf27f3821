// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/test/e2e/body"
)

// MannersSpec describes a server that uses its sockets as few do. It answers
//
//	/MANNER?size=&seed=&delay=&pause=
//
// with a deterministic body, written in that manner (see writers), after delay;
// pause lies between the parts of manners that write in parts. It first reads
// the request and its body in the manner of Read (see readers).
type MannersSpec struct {
	// Address to listen on; port 0 takes a free one.
	Address string
	Read    string
	// Identity is sent in the header of that name.
	Identity string
	// Zerocopy asks for MSG_ZEROCOPY on the listening socket.
	Zerocopy bool
}

// MannersReady is the server's first answer.
type MannersReady struct{ Address string }

// MannersState answers every command.
type MannersState struct {
	// Completed counts the completions of MSG_ZEROCOPY that came, Missed those that did not.
	Completed, Missed int64
}

// ReadOddly is the response header that tells which of the server's reads did not
// do what the manuals say.
const ReadOddly = "X-Read-Oddly"

type manners struct {
	identity          string
	read              reader
	completed, missed atomic.Int64
}

func runManners(s *stdio) error {
	if err := quiet(); err != nil {
		return err
	}
	var spec MannersSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	m := &manners{identity: spec.Identity, read: readers[spec.Read]}
	if m.read == nil {
		return fmt.Errorf("no manner %q to read", spec.Read)
	}
	to, err := netip.ParseAddrPort(spec.Address)
	if err != nil {
		return err
	}
	listener, address, err := listenRaw(to)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", spec.Address, err)
	}
	if spec.Zerocopy {
		if err := setInt(listener, unix.SOL_SOCKET, unix.SO_ZEROCOPY, 1); err != nil {
			return err
		}
	}
	go m.accept(listener)
	if err := s.answer(MannersReady{Address: address.String()}); err != nil {
		return err
	}
	for {
		if _, err := s.command(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a command: %w", err)
		}
		if err := s.answer(MannersState{Completed: m.completed.Load(), Missed: m.missed.Load()}); err != nil {
			return err
		}
	}
}

// listenRaw makes a listening socket that Go's runtime knows nothing of.
func listenRaw(at netip.AddrPort) (fd int, address netip.AddrPort, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, address, os.NewSyscallError("socket", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}); err != nil {
		return 0, address, os.NewSyscallError("bind", err)
	}
	if err := unix.Listen(fd, 4096); err != nil {
		return 0, address, os.NewSyscallError("listen", err)
	}
	own, err := unix.Getsockname(fd)
	if err != nil {
		return 0, address, os.NewSyscallError("getsockname", err)
	}
	return fd, netip.AddrPortFrom(at.Addr(), uint16(own.(*unix.SockaddrInet4).Port)), nil
}

// accept goes on until the process ends.
func (m *manners) accept(listener int) {
	for {
		fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return
		}
		go func() {
			defer unix.Close(fd)
			c := mannersConn{server: m, fd: fd}
			for c.serve() == nil {
			}
		}()
	}
}

type mannersConn struct {
	server *manners
	fd     int
	// ahead has been read and not been used.
	ahead []byte
}

// errLastAnswer ends a connection that was asked to close.
var errLastAnswer = errors.New("last answer")

// serve reads one request and answers it.
func (c *mannersConn) serve() error {
	request, oddities, err := c.receive()
	if err != nil {
		return err
	}
	manner := strings.TrimPrefix(request.URL.Path, "/")
	write, ok := writers[manner]
	if !ok {
		return fmt.Errorf("no manner %q to write", manner)
	}
	query := request.URL.Query()
	digest, size, err := c.upload(request, &oddities)
	if err != nil {
		return err
	}
	time.Sleep(milliseconds(query, "delay"))
	content, err := contentOf(query)
	if err != nil {
		return err
	}
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s: %s\r\n%s: %d %s\r\n%s: %s\r\n",
		len(content), Identity, c.server.identity, UploadDigest, size, digest, ReadOddly, strings.Join(oddities, ", "))
	if request.Close {
		head += "Connection: close\r\n"
	}
	if err := write(c, []byte(head+"\r\n"), content, milliseconds(query, "pause")); err != nil {
		return err
	}
	if request.Close {
		return errLastAnswer
	}
	return nil
}

// receive reads a head.
func (c *mannersConn) receive() (request *http.Request, oddities []string, err error) {
	for {
		if end := bytes.Index(c.ahead, []byte("\r\n\r\n")); end >= 0 {
			head := strings.NewReader(string(c.ahead[:end+4]))
			c.ahead = c.ahead[end+4:]
			request, err = http.ReadRequest(newReader(head))
			return request, oddities, err
		}
		piece, saw, err := c.server.read(c.fd, 64<<10, 0)
		if err != nil {
			return nil, nil, err
		}
		oddities = addNew(oddities, saw)
		c.ahead = append(c.ahead, piece...)
	}
}

// upload reads the request's body, unless the manner leaves it alone.
func (c *mannersConn) upload(request *http.Request, oddities *[]string) (digest string, size int64, err error) {
	sum := sha256.New()
	if request.URL.Path == "/"+WriteNothing {
		return "", 0, nil
	}
	if request.ContentLength < 0 {
		size, err := io.Copy(sum, httputil.NewChunkedReader(&mannersBody{c, oddities}))
		return body.Sum(sum), size, err
	}
	for size < request.ContentLength {
		if len(c.ahead) == 0 {
			rest := int(request.ContentLength - size)
			piece, saw, err := c.server.read(c.fd, rest, rest)
			if err != nil {
				return "", 0, err
			}
			*oddities = addNew(*oddities, saw)
			c.ahead = piece
		}
		n := min(int64(len(c.ahead)), request.ContentLength-size)
		sum.Write(c.ahead[:n])
		c.ahead, size = c.ahead[n:], size+n
	}
	return body.Sum(sum), size, nil
}

// mannersBody reads on behind the head, in the server's manner.
type mannersBody struct {
	conn     *mannersConn
	oddities *[]string
}

func (b *mannersBody) Read(p []byte) (int, error) {
	if len(b.conn.ahead) == 0 {
		piece, saw, err := b.conn.server.read(b.conn.fd, len(p), 0)
		if err != nil {
			return 0, err
		}
		*b.oddities = addNew(*b.oddities, saw)
		b.conn.ahead = piece
	}
	n := copy(p, b.conn.ahead)
	b.conn.ahead = b.conn.ahead[n:]
	return n, nil
}

// addNew adds what a call saw, once.
func addNew(all []string, saw string) []string {
	for _, known := range all {
		if known == saw {
			return all
		}
	}
	if saw == "" {
		return all
	}
	return append(all, saw)
}

func contentOf(query url.Values) ([]byte, error) {
	size, err := strconv.ParseInt(query.Get("size"), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("parameter size: %w", err)
	}
	seed, err := strconv.ParseUint(query.Get("seed"), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("parameter seed: %w", err)
	}
	return io.ReadAll(body.New(seed, size))
}

// milliseconds is a parameter that is 0 unless it is given well.
func milliseconds(query url.Values, name string) time.Duration {
	n, _ := strconv.Atoi(query.Get(name))
	return time.Duration(n) * time.Millisecond
}

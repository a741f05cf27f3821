// SPDX-License-Identifier: Apache-2.0

package programs

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

	"golang.org/x/sys/unix"
)

// PipelineSpec describes clients that send the next request before they have
// read the answer to the one before.
type PipelineSpec struct {
	Address string
	// Paths are asked for in turn, without reading what need not be read; then all answers are read. A path is the identity of the server that
	// is to answer, unless it has a query.
	Paths []string
	// Pause is the longest time between two sends; each is drawn anew.
	Pause       time.Duration
	Connections int
	Rounds      int
	// Depth is how many requests wait for their answers at most; 0 is as many as there are paths.
	Depth int
	// SendBuffer is the size of the client's, and has it block in each send until all is sent; 0 is the kernel's, with sends that do not block.
	SendBuffer int `json:",omitempty"`
	// Content is how many bytes the last request of a round has behind its head.
	Content int `json:",omitempty"`
	// Continue has the last request ask for 100 Continue, and not wait for it.
	Continue bool `json:",omitempty"`
	// Beside has another task send the content's last third at the same time, in pieces for which there is room.
	Beside bool `json:",omitempty"`
}

// PipelineUnrouted is a path for which there is to be no route.
const PipelineUnrouted = "/unrouted"

// PipelineReport is the program's only answer.
type PipelineReport struct {
	// Rounds that were answered in order.
	Rounds int
	// Failures are the first few rounds that were not.
	Failures []string
}

func runPipeline(s *stdio) error {
	var spec PipelineSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	rounds := func() (good int, failures []string) {
		good, err := spec.connection()
		if err != nil {
			failures = []string{err.Error()}
		}
		return good, failures
	}
	var report PipelineReport
	report.Rounds, report.Failures = atOnce(spec.Connections, rounds)
	return s.answer(&report)
}

// connection returns the number of good rounds on one connection.
func (s *PipelineSpec) connection() (int, error) {
	conn, err := net.Dial("tcp", s.Address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return 0, err
	}
	w, err := s.writer(conn.(*net.TCPConn))
	if err != nil {
		return 0, err
	}
	r := bufio.NewReader(conn)
	for round := range s.Rounds {
		if err := s.round(w, r); err != nil {
			return round, fmt.Errorf("round %d: %w", round, err)
		}
	}
	return s.Rounds, nil
}

// writer is how the connection is written.
func (s *PipelineSpec) writer(conn *net.TCPConn) (io.Writer, error) {
	if s.SendBuffer == 0 {
		return conn, nil
	}
	if err := conn.SetWriteBuffer(s.SendBuffer); err != nil {
		return nil, err
	}
	raw, err := conn.SyscallConn()
	return blockingWriter{raw}, err
}

// blockingWriter sends by calls of the kernel that do not return before all is sent, unless a signal comes.
type blockingWriter struct{ raw syscall.RawConn }

// besidePiece is how many bytes another task sends at a time.
const besidePiece = 1000

// roomPause is between two looks at a connection of which others take the room as well.
const roomPause = 200 * time.Microsecond

// writeBeside sends in pieces that do not block, until all is sent. It begins when another task's send has filled the connection, or has returned.
func (w blockingWriter) writeBeside(b []byte, other <-chan struct{}) (err error) {
	controlled := w.raw.Control(func(fd uintptr) {
		for !isClosed(other) {
			if queued, failed := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); failed != nil || queued > besidePiece {
				break
			}
			time.Sleep(roomPause)
		}
		for len(b) > 0 && err == nil {
			var n int
			n, err = unix.SendmsgN(int(fd), b[:min(len(b), besidePiece)], nil, nil, unix.MSG_DONTWAIT)
			b = b[max(n, 0):]
			if errors.Is(err, unix.EAGAIN) {
				err = nil
				time.Sleep(roomPause)
			}
		}
	})
	return errors.Join(controlled, err)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (w blockingWriter) Write(b []byte) (n int, err error) {
	controlled := w.raw.Control(func(fd uintptr) {
		if err = unix.SetNonblock(int(fd), false); err != nil {
			return
		}
		for n < len(b) && (err == nil || errors.Is(err, unix.EINTR)) {
			var more int
			more, err = unix.Write(int(fd), b[n:])
			n += max(more, 0)
		}
		if n > 0 {
			// The balancer may have answered and closed amid it: the answer tells.
			err = nil
		}
		err = errors.Join(err, unix.SetNonblock(int(fd), true))
	})
	return n, errors.Join(controlled, err)
}

func (s *PipelineSpec) request(i int, path string) string {
	if s.Content == 0 || i < len(s.Paths)-1 {
		return Ask{Path: path}.head()
	}
	headers := []string{fmt.Sprintf("Content-Length: %d", s.Content)}
	if s.Continue {
		headers = append(headers, "Expect: 100-continue")
	}
	return Ask{Path: path, Headers: headers}.head() + strings.Repeat("x", s.Content)
}

// send sends a request, a part of it from another task where it is long.
func (s *PipelineSpec) send(w io.Writer, request []byte) error {
	blocking, ok := w.(blockingWriter)
	if !ok || !s.Beside || len(request) < s.Content {
		_, err := w.Write(request)
		return err
	}
	cut := len(request) - s.Content/3
	beside, sent := make(chan error, 1), make(chan struct{})
	go func() { beside <- blocking.writeBeside(request[cut:], sent) }()
	_, err := blocking.Write(request[:cut])
	close(sent)
	return errors.Join(err, <-beside)
}

func (s *PipelineSpec) round(w io.Writer, r *bufio.Reader) error {
	waiting := s.Paths
	for i, path := range s.Paths {
		if s.Depth > 0 && i+len(waiting)-len(s.Paths) >= s.Depth {
			if err := s.read(r, waiting[0]); err != nil {
				return err
			}
			waiting = waiting[1:]
		}
		if i > 0 && s.Pause > 0 {
			spin(time.Duration(rand.Int64N(int64(s.Pause))))
		}
		if err := s.send(w, []byte(s.request(i, path))); err != nil {
			return err
		}
	}
	for _, path := range waiting {
		if err := s.read(r, path); err != nil {
			return err
		}
	}
	return nil
}

// read reads the next answer, which must be that of the path.
func (s *PipelineSpec) read(r *bufio.Reader, path string) error {
	response, err := http.ReadResponse(r, nil)
	if err == nil && response.StatusCode == http.StatusContinue {
		response, err = http.ReadResponse(r, nil)
	}
	if err != nil {
		return err
	}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if path == PipelineUnrouted && response.StatusCode == http.StatusNotFound {
		return nil
	}
	if response.StatusCode != http.StatusOK || !strings.Contains(path, "?") && "/"+response.Header.Get(Identity) != path {
		return fmt.Errorf("asked %s for %s, answered by %s: %q", s.Address, path, response.Header.Get(Identity), content)
	}
	return nil
}

// spin passes a time that is too short for a timer.
func spin(d time.Duration) {
	for began := time.Now(); time.Since(began) < d; {
	}
}

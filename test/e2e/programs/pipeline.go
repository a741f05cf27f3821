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
}

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

// blockingWriter sends in one call of the kernel, which does not return before all is sent.
type blockingWriter struct{ raw syscall.RawConn }

func (w blockingWriter) Write(b []byte) (n int, err error) {
	controlled := w.raw.Control(func(fd uintptr) {
		if err = unix.SetNonblock(int(fd), false); err != nil {
			return
		}
		n, err = unix.Write(int(fd), b)
		err = errors.Join(err, unix.SetNonblock(int(fd), true))
	})
	return n, errors.Join(controlled, err)
}

func (s *PipelineSpec) request(i int, path string) string {
	if s.Content == 0 || i < len(s.Paths)-1 {
		return Ask{Path: path}.head()
	}
	return Ask{Path: path, Headers: []string{fmt.Sprintf("Content-Length: %d", s.Content)}}.head() + strings.Repeat("x", s.Content)
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
		if _, err := io.WriteString(w, s.request(i, path)); err != nil {
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
	if err != nil {
		return err
	}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err
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

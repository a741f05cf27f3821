// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// PipelineSpec describes clients that send the next request before they have
// read the answer to the one before.
type PipelineSpec struct {
	Address string
	// Paths are asked for in turn, without reading; then all answers are read.
	Paths []string
	// Pause is the longest time between two sends; each is drawn anew.
	Pause       time.Duration
	Connections int
	Rounds      int
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
	r := bufio.NewReader(conn)
	for round := range s.Rounds {
		if err := s.round(conn, r); err != nil {
			return round, fmt.Errorf("round %d: %w", round, err)
		}
	}
	return s.Rounds, nil
}

func (s *PipelineSpec) round(conn net.Conn, r *bufio.Reader) error {
	for i, path := range s.Paths {
		if i > 0 {
			spin(time.Duration(rand.Int64N(int64(s.Pause))))
		}
		if _, err := io.WriteString(conn, Ask{Path: path}.head()); err != nil {
			return err
		}
	}
	for _, path := range s.Paths {
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			return err
		}
		content, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		if "/"+response.Header.Get(Identity) != path {
			return fmt.Errorf("asked %s for %s, answered by %s: %q", s.Address, path, response.Header.Get(Identity), content)
		}
	}
	return nil
}

// spin passes a time that is too short for a timer.
func spin(d time.Duration) {
	for began := time.Now(); time.Since(began) < d; {
	}
}

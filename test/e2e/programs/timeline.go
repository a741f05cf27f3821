// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Beat is one thing that a client does in its time; one field is set.
type Beat struct {
	// Wait so long.
	Wait time.Duration `json:",omitempty"`
	// Send these bytes in one write.
	Send string `json:",omitempty"`
	// Receive one whole response.
	Receive bool `json:",omitempty"`
	// End waits until the other side closes.
	End bool `json:",omitempty"`
	// Sip reads this many bytes.
	Sip int `json:",omitempty"`
}

// TimelineSpec describes clients that do their beats side by side, each on a connection of its own.
type TimelineSpec struct {
	Clients []TimelineClient
	// Patience bounds each client.
	Patience time.Duration
}

// TimelineClient is one of them.
type TimelineClient struct {
	Address string
	Beats   []Beat
}

// Happening is what a client has seen: of a response its status, its body and whether it closes, or an end: "eof", "reset", "timeout".
type Happening struct {
	What string
	// At is the time from the connection's beginning.
	At time.Duration
}

// TimelineReport is the program's only answer, in the order of the clients.
type TimelineReport struct{ Clients [][]Happening }

func runTimeline(s *stdio) error {
	var spec TimelineSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	report := TimelineReport{Clients: make([][]Happening, len(spec.Clients))}
	var wg sync.WaitGroup
	for i := range spec.Clients {
		wg.Go(func() { report.Clients[i] = spec.Clients[i].run(spec.Patience) })
	}
	wg.Wait()
	return s.answer(report)
}

func (c *TimelineClient) run(patience time.Duration) (seen []Happening) {
	began := time.Now()
	note := func(what string) { seen = append(seen, Happening{what, time.Since(began)}) }
	conn, err := net.Dial("tcp", c.Address)
	if err != nil {
		note(err.Error())
		return seen
	}
	defer conn.Close()
	_ = conn.SetDeadline(began.Add(patience)) // the connection is open: it cannot fail
	r := bufio.NewReader(conn)
	for _, b := range c.Beats {
		what, err := b.do(conn, r)
		if what != "" {
			note(what)
		}
		if err != nil {
			note(endOf(err))
			return seen
		}
	}
	return seen
}

func (b *Beat) do(conn net.Conn, r *bufio.Reader) (what string, err error) {
	switch {
	case b.Wait > 0:
		time.Sleep(b.Wait)
	case b.Send != "":
		_, err = io.WriteString(conn, b.Send)
	case b.Sip > 0:
		_, err = io.CopyN(io.Discard, r, int64(b.Sip))
	case b.Receive:
		return receiveHappening(r)
	case b.End:
		_, err = io.Copy(io.Discard, r)
		if err == nil {
			err = io.EOF
		}
	}
	return "", err
}

func receiveHappening(r *bufio.Reader) (string, error) {
	if _, err := r.Peek(1); err != nil {
		return "", err
	}
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Sprintf("%d, broken off", response.StatusCode), nil
	}
	what := fmt.Sprintf("%d %s", response.StatusCode, content[:min(len(content), maxAnswer)])
	if response.Close {
		what += ", closing"
	}
	return what, nil
}

// endOf names the end of a connection.
func endOf(err error) string {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "eof"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	}
	return "reset"
}

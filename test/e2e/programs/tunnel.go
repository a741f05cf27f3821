// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// TunnelSpec describes clients that switch protocols, send, half-close, and read what the origin's /switch echoes up to its end.
type TunnelSpec struct {
	Address string
	// Clients at work at once; each opens Tunnels, one after the other.
	Clients, Tunnels int
	// Timeout of one tunnel.
	Timeout time.Duration
}

// TunnelReport is the program's only answer.
type TunnelReport struct {
	// Whole are the tunnels that echoed every byte and ended.
	Whole int
	// Failures are the first few that did not.
	Failures []string
}

// tunnelLimit is the most that a client sends through one tunnel, in bytes.
const tunnelLimit = 4 << 10

func runTunnel(s *stdio) error {
	var spec TunnelSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	tunnels := func() (whole int, failures []string) {
		for range spec.Tunnels {
			if err := spec.tunnel(); err != nil {
				failures = append(failures, err.Error())
			} else {
				whole++
			}
		}
		return whole, failures
	}
	var report TunnelReport
	report.Whole, report.Failures = atOnce(spec.Clients, tunnels)
	return s.answer(&report)
}

// tunnel asks for something else first, as a client whose connections are kept alive does.
func (s *TunnelSpec) tunnel() error {
	conn, err := net.Dial("tcp", s.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(s.Timeout)); err != nil {
		return err
	}
	r := bufio.NewReader(conn)
	if err := expectStatus(conn, r, Ask{Path: "/ok"}.head(), http.StatusOK); err != nil {
		return err
	}
	head := "GET /switch HTTP/1.1\r\nHost: e2e.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	if err := expectStatus(conn, r, head, http.StatusSwitchingProtocols); err != nil {
		return err
	}
	sent := bytes.Repeat([]byte("tunnel"), rand.IntN(tunnelLimit/6))
	go func() {
		// What is not sent is not echoed.
		_ = sendInPieces(conn, sent)
	}()
	got, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("%s: %d of %d bytes, then: %w", conn.LocalAddr(), len(got), len(sent), err)
	}
	if !bytes.Equal(got, sent) {
		return fmt.Errorf("%s: %d of %d bytes, then the end", conn.LocalAddr(), len(got), len(sent))
	}
	return nil
}

func expectStatus(conn net.Conn, r *bufio.Reader, head string, want int) error {
	if _, err := io.WriteString(conn, head); err != nil {
		return err
	}
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	if response.StatusCode != want {
		return fmt.Errorf("got %s, want %d", response.Status, want)
	}
	if want == http.StatusSwitchingProtocols {
		return nil
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}

func sendInPieces(conn net.Conn, b []byte) error {
	for len(b) > 0 {
		n := 1 + rand.IntN(len(b))
		if _, err := conn.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return conn.(*net.TCPConn).CloseWrite()
}

// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/xlb-project/xlb/test/e2e/body"
)

// ParkedSpec describes clients that ask for a body and do not read it
// until they are told to.
type ParkedSpec struct {
	Address, Path string
	// Clients is how many there are; 0 is one.
	Clients int
	// ReceiveBuffer is their SO_RCVBUF in bytes, set once they are connected; 0 leaves it.
	ReceiveBuffer int
}

// ParkedReport is the first answer (empty, the requests are sent), and the
// second after the command "read", about the client that asked last.
type ParkedReport struct {
	Size   int64
	Digest string
	Error  string
}

func runParked(s *stdio) error {
	var spec ParkedSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	var conn net.Conn
	for range max(spec.Clients, 1) {
		var err error
		if conn, err = net.Dial("tcp", spec.Address); err != nil {
			return err
		}
		defer conn.Close()
		if spec.ReceiveBuffer != 0 {
			if err := conn.(*net.TCPConn).SetReadBuffer(spec.ReceiveBuffer); err != nil {
				return err
			}
		}
		if _, err := io.WriteString(conn, Ask{Path: spec.Path}.head()); err != nil {
			return fmt.Errorf("send: %w", err)
		}
	}
	if err := s.answer(ParkedReport{}); err != nil {
		return err
	}
	if _, err := s.command(); err != nil {
		// The end without having read: the test wants to see a client go.
		if errors.Is(err, io.EOF) {
			return nil
		}
		return fmt.Errorf("read a command: %w", err)
	}
	return s.answer(readAll(conn))
}

func readAll(conn net.Conn) ParkedReport {
	response, err := http.ReadResponse(bufio.NewReaderSize(conn, 256<<10), nil)
	if err != nil {
		return ParkedReport{Error: err.Error()}
	}
	digest := sha256.New()
	n, err := io.Copy(digest, response.Body)
	report := ParkedReport{Size: n, Digest: body.Sum(digest)}
	if err != nil {
		report.Error = err.Error()
	}
	return report
}

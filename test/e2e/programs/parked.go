// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"

	"golang.org/x/sys/unix"

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
// last after the command "read", about the client that asked last. The command
// "read all" reads what each has got instead, one after the other.
type ParkedReport struct {
	Size   int64
	Digest string
	Error  string
	// Unread answers the command "unread": the fewest bytes that lie unread in a client's socket.
	Unread int `json:",omitempty"`
	// All answers "read all".
	All []ParkedReport `json:",omitempty"`
}

func runParked(s *stdio) error {
	var spec ParkedSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	var conns []*net.TCPConn
	for range max(spec.Clients, 1) {
		dialed, err := net.Dial("tcp", spec.Address)
		if err != nil {
			return err
		}
		defer dialed.Close()
		conn := dialed.(*net.TCPConn)
		conns = append(conns, conn)
		if spec.ReceiveBuffer != 0 {
			if err := conn.SetReadBuffer(spec.ReceiveBuffer); err != nil {
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
	for {
		command, err := s.command()
		// The end without having read: the test wants to see a client go.
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a command: %w", err)
		}
		switch command {
		case "unread":
			err = answerUnread(s, conns)
		case "read all":
			return s.answer(ParkedReport{All: readEach(conns)})
		default:
			return s.answer(readAll(conns[len(conns)-1]))
		}
		if err != nil {
			return err
		}
	}
}

func answerUnread(s *stdio, conns []*net.TCPConn) error {
	least := math.MaxInt
	for _, conn := range conns {
		raw, err := conn.SyscallConn()
		if err != nil {
			return err
		}
		n, asked := 0, error(nil)
		if err := raw.Control(func(fd uintptr) { n, asked = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }); err != nil {
			return err
		}
		if asked != nil {
			return fmt.Errorf("ask FIONREAD: %w", asked)
		}
		least = min(least, n)
	}
	return s.answer(ParkedReport{Unread: least})
}

func readEach(conns []*net.TCPConn) (all []ParkedReport) {
	for _, conn := range conns {
		all = append(all, readAll(conn))
	}
	return all
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

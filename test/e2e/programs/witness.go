// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// WitnessSpec describes a server that says what it was asked.
type WitnessSpec struct {
	// Address to listen on; port 0 takes a free one.
	Address string
}

// WitnessReady is the server's first answer.
type WitnessReady struct{ Address string }

// Account is what a witness answers to a request, in the header Identity.
type Account struct {
	// Asked is the method, the target, and a digest of the body.
	Asked string
	// Bytes is a digest of the request as it came.
	Bytes string
}

// String is Asked and Bytes, with a space between.
func (a Account) String() string { return a.Asked + " " + a.Bytes }

// AccountOf is what a witness makes of a request.
func AccountOf(request []byte) (Account, error) {
	r := bufio.NewReader(bytes.NewReader(request))
	a, err := witness(r)
	if err == nil && r.Buffered() > 0 {
		err = errors.New("bytes behind the request")
	}
	a.Bytes = digest(request)
	return a, err
}

// witness reads a request, and says what it asks.
func witness(r *bufio.Reader) (Account, error) {
	request, err := http.ReadRequest(r)
	if err != nil {
		return Account{}, err
	}
	body, err := io.ReadAll(request.Body)
	return Account{Asked: request.Method + " " + request.RequestURI + " " + digest(body)}, err
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return fmt.Sprintf("%x", sum[:8])
}

func runWitness(s *stdio) error {
	var spec WitnessSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	listener, err := s.listen(spec.Address, func(a string) any { return WitnessReady{Address: a} }, func(c net.Conn) { go answerAccounts(c) })
	if err != nil {
		return err
	}
	defer listener.Close()
	s.waitForEnd()
	return nil
}

// answerAccounts answers requests. The next one comes only behind the answer to the one before.
func answerAccounts(conn net.Conn) {
	defer conn.Close()
	var raw bytes.Buffer
	r := bufio.NewReader(io.TeeReader(conn, &raw))
	for {
		account, err := witness(r)
		if err != nil {
			return
		}
		account.Bytes = digest(raw.Bytes())
		raw.Reset()
		if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\n%s: %s\r\nContent-Length: 0\r\n\r\n", Identity, account); err != nil {
			return
		}
	}
}

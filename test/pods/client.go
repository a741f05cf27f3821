// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// answerPatience bounds one request.
const answerPatience = 30 * time.Second

// client asks over one connection.
type client struct {
	conn net.Conn
	r    *bufio.Reader
}

func newClient(conn net.Conn) *client {
	const size = 512
	return &client{conn, bufio.NewReaderSize(conn, size)}
}

// ask sends one request, and fails unless the answer is 200 and names the server.
func (c *client) ask(host, server string) error {
	if err := c.conn.SetDeadline(time.Now().Add(answerPatience)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c.conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	response, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return fmt.Errorf("receive the head: %w", err)
	}
	const most = 1 << 10
	body, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err != nil {
		return fmt.Errorf("receive the body: %w", err)
	}
	if response.StatusCode != http.StatusOK || string(body) != server {
		return fmt.Errorf("got %d %q, want 200 %q", response.StatusCode, body, server)
	}
	return nil
}

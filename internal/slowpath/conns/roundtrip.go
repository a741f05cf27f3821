// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"io"
	"net/http"

	"github.com/xlb-project/xlb/internal/slowpath/h1"
)

// Message is a whole request.
type Message struct {
	Method              string
	Head, Body, Trailer []byte
	// Chunked: the body is sent in chunks, with the trailer behind them.
	Chunked bool
}

// RoundTrip sends a request whose answer is read and not kept. It reports the status, and whether the endpoint takes another request on the connection.
func (c *Conn) RoundTrip(m *Message) (status int, keep bool, err error) {
	if err := c.write(m); err != nil {
		return 0, false, err
	}
	c.Whole.Store(true)
	resp, err := c.Responses.Final(m.Method, func(*h1.Response) error { return nil })
	if err != nil {
		return 0, false, err
	}
	if resp.Body != nil {
		_, err = io.Copy(io.Discard, resp.Body)
	}
	return resp.Status, resp.KeepAlive && err == nil && resp.Status != http.StatusSwitchingProtocols, err
}

func (c *Conn) write(m *Message) error {
	w := h1.NewRequestWriter(c.Conn, m.Chunked)
	defer w.Release()
	if err := w.Head(m.Head); err != nil {
		return err
	}
	if err := w.Data(m.Body); err != nil {
		return err
	}
	return w.End(m.Trailer)
}

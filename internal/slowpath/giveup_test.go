// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/xlb-project/xlb/test/await"
)

// What an endpoint has of a request that its client has not sent whole must not look whole, and no
// port waits behind it.
func TestRequestThatIsNotSentWholeIsReset(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nHost: h\r\n"
	for _, tt := range []struct {
		name, request string
		want          error
	}{
		{"half a body", head + "Content-Length: 9\r\n\r\nhalf", syscall.ECONNRESET},
		{"half a chunk", head + "Transfer-Encoding: chunked\r\n\r\n9\r\nhalf", syscall.ECONNRESET},
		{"no chunk", head + "Transfer-Encoding: chunked\r\n\r\nxx\r\n", syscall.ECONNRESET},
		{"whole, without an answer", head + "Content-Length: 4\r\n\r\nbody", io.EOF},
		{"whole, without a body", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", io.EOF},
		{"whole, in chunks", head + "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", io.EOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			came, ends := make(chan struct{}), make(chan error, 1)
			f := newFront(t, list(rawEndpoint(t, func(_ net.Conn, r *bufio.Reader) {
				readHeadOf(r)
				close(came)
				_, err := io.Copy(io.Discard, r)
				if err == nil {
					err = io.EOF
				}
				ends <- err
			})))
			client := f.dial().(*net.TCPConn)
			if _, err := io.WriteString(client, tt.request); err != nil {
				t.Fatal(err)
			}
			await.Next(t, came, "request at the endpoint")
			// The proxy hears of a client that has reset at once.
			if err := errors.Join(client.SetLinger(0), client.Close()); err != nil {
				t.Fatal(err)
			}
			if got := await.Next(t, ends, "end of the endpoint's connection"); !errors.Is(got, tt.want) {
				t.Errorf("the endpoint sees %v, want %v", got, tt.want)
			}
		})
	}
}

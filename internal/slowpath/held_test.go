// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"weak"

	"github.com/xlb-project/xlb/internal/model"
)

// What lasts for long once an endpoint has answered, or is connected to, holds no configuration that was replaced: each has all clusters.
func TestALongConnectionHoldsNoConfigurationThatWasReplaced(t *testing.T) {
	const get = "GET / HTTP/1.1\r\nHost: a\r\n"
	tests := []struct {
		name         string
		option       frontOption
		sent, answer string
	}{
		{"a tunnel", allow("x"), get + "Connection: upgrade\r\nUpgrade: x\r\n\r\n", "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"},
		{"a response", func(*Config, *model.Route) {}, get + "\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"},
		{"a response with a retry policy", retried(model.Retry{On: model.RetryOn5xx, Retries: 3}), get + "\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"},
		{"a connection without HTTP", withoutHTTP, get + "\r\n", "hello"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			endpoint := rawEndpoint(t, func(c net.Conn, r *bufio.Reader) {
				readHeadOf(r)
				_, _ = io.WriteString(c, tt.answer+"more")
				_, _ = io.Copy(io.Discard, r)
			})
			var active atomic.Pointer[configuration]
			f := newFront(t, list(endpoint), tt.option, func(c *Config, _ *model.Route) {
				active.Store(activeOf(c))
				c.Active = func() Configuration { return active.Load() }
			})
			conn := f.dial()
			if _, err := io.WriteString(conn, tt.sent); err != nil {
				t.Fatal(err)
			}
			in := bufio.NewReader(conn)
			if _, err := io.CopyN(io.Discard, in, int64(len("more"))); err != nil {
				t.Fatal(err)
			}
			before := weak.Make(active.Load())
			active.Store(&configuration{})
			eventually(t, "the configuration is forgotten", func() bool {
				runtime.GC()
				return before.Value() == nil
			})
			if n := f.proxy.Counters().Active(); n != 1 {
				t.Errorf("%d connections are served, want 1", n)
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
)

// A client that the kernel leads to a new listener a moment before the configuration with it is in force waits for that: its first request has a route, and a
// connection without HTTP is not taken for one of HTTP.
func TestAClientWaitsForTheConfigurationOfItsListener(t *testing.T) {
	t.Run("HTTP", func(t *testing.T) {
		served := httpEndpoint(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
		f := newFront(t, list(served), justSwitching)
		if answer := f.exchange("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 200") {
			t.Errorf("got %.60q, want 200", answer)
		}
	})
	t.Run("TCP", func(t *testing.T) {
		echo := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
			line, _ := r.ReadString('\n')
			_, _ = io.WriteString(conn, line)
		})
		f := newFront(t, list(echo), func(c *Config, r *model.Route) {
			activeOf(c).tcp = func(string) *model.TCPProxy {
				return &model.TCPProxy{Clusters: []model.WeightedCluster{{Name: "c", Weight: 1}}}
			}
			justSwitching(c, r)
		})
		if answer := f.exchange("no HTTP\n"); answer != "no HTTP\n" {
			t.Errorf("got %.60q, want the bytes of the endpoint", answer)
		}
	})
}

// justSwitching has nothing be in force until the switch that is under way is waited for.
func justSwitching(c *Config, _ *model.Route) {
	var now atomic.Pointer[configuration]
	now.Store(&configuration{hasNoListener: true})
	next := activeOf(c)
	c.Active, c.AwaitSwitch = func() Configuration { return now.Load() }, func() { now.Store(next) }
}

// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// faulty lets the route's requests have a fault.
func faulty(f model.Fault) frontOption {
	return func(c *Config, r *model.Route) {
		r.Filters.Fault = &f
		table, _ := c.Active().Routes("")
		table.Filters = []model.Filter{model.FilterFault}
	}
}

func TestDelayIsNoPartOfTheRoutesTimeout(t *testing.T) {
	const delay = 150 * time.Millisecond
	endpoint := httpEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	})
	f := newFront(t, list(endpoint), routeTimeout(delay/2), faulty(model.Fault{Delay: delay}))
	for _, body := range []string{"", "of the request"} {
		began := time.Now()
		response, err := f.client().Post("http://a/", "text/plain", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || string(got) != body {
			t.Errorf("%d %q, %v; want 200 %q", response.StatusCode, got, err, body)
		}
		if took := time.Since(began); took < delay {
			t.Errorf("answered in %v, want %v at least", took, delay)
		}
	}
}

func TestClientThatLeavesEndsItsDelay(t *testing.T) {
	f := newFront(t, nil, faulty(model.Fault{Delay: time.Hour, Status: 503}))
	conn := f.dial()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	eventually(t, "the request begins", func() bool { return f.proxy.Counters().Active() == 1 })
	_ = conn.Close()
	eventually(t, "the request ends", func() bool { return f.proxy.Counters().Active() == 0 })
	if n := f.proxy.Counters().Flag(FlagDownstreamTermination); n != 1 {
		t.Errorf("%d requests whose client has gone, want 1", n)
	}
}

func TestAbortKeepsTheConnectionAndIsCounted(t *testing.T) {
	f := newFront(t, nil, faulty(model.Fault{Status: 418, Body: "short", Headers: []matcher.HeaderMatch{{Name: "x-break"}}}))
	got := f.exchange("POST / HTTP/1.1\r\nHost: a\r\nX-Break: 1\r\nContent-Length: 3\r\n\r\nabc" +
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if !strings.HasPrefix(got, "HTTP/1.1 418 I'm a teapot\r\nContent-Length: 5\r\n") || !strings.Contains(got, "\r\n\r\nshortHTTP/1.1 503 ") {
		t.Errorf("got %q", got)
	}
	if n := f.proxy.Counters().Flag(FlagFaultInjected); n != 1 {
		t.Errorf("%d injected faults, want 1", n)
	}
}

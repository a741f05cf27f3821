// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model"
)

func TestForwardedHostIsAddedToWhatProxiesBeforeHaveSaid(t *testing.T) {
	heads := make(chan string, 1)
	endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		heads <- readHeadOf(r)
		_, _ = io.WriteString(conn, okLine+"Content-Length: 0\r\n\r\n")
	})
	f := newFront(t, list(endpoint), func(_ *Config, r *model.Route) {
		r.Host = model.HostRewrite{Literal: "new.test", AppendForwarded: true}
	})
	conn := f.dial()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: old.test\r\nX-Forwarded-Host: older.test\r\n\r\n")
	if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
		t.Fatal(err)
	}
	head := <-heads
	if !strings.Contains(head, "Host: new.test\r\n") || !strings.Contains(head, "X-Forwarded-Host: older.test\r\nX-Forwarded-Host: old.test\r\n") {
		t.Errorf("the endpoint got %q", head)
	}
}

func TestForwardedHostIsAppendedOnce(t *testing.T) {
	for _, c := range []struct {
		given []string
		want  string
	}{
		{nil, "a.test"},
		{[]string{"b.test"}, "b.test|a.test"},
		{[]string{"a.test"}, "a.test"},
		{[]string{"a.test,b.test"}, "a.test,b.test|a.test"},
		{[]string{"b.test,a.test"}, "b.test,a.test"},
		{[]string{"a.test", ""}, "a.test|"},
		{[]string{"a.test,,"}, "a.test,,"},
		{[]string{""}, "|a.test"},
		{[]string{","}, ",|a.test"},
	} {
		var fields []field
		for _, v := range c.given {
			fields = append(fields, field{Name: []byte("x-forwarded-host"), Value: []byte(v)})
		}
		if got := strings.Join(head.Values(appendForwardedHost(fields, "a.test"), "x-forwarded-host"), "|"); got != c.want {
			t.Errorf("%q: got %q, want %q", c.given, got, c.want)
		}
	}
}

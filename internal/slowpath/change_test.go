// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

// setting overwrites a header with a value of these parts.
func setting(name string, parts ...rewrite.FormatPart) rewrite.HeaderSetting {
	return rewrite.HeaderSetting{Name: name, How: rewrite.OverwriteOrAdd, Value: rewrite.Format{Parts: parts}}
}

func changing(l *rewrite.HeaderLevel) frontOption {
	return func(_ *Config, r *model.Route) { r.Levels = append(r.Levels, l) }
}

// A switch of protocols says so whatever the route changes.
func TestHeadersOfASwitchAreChanged(t *testing.T) {
	level := &rewrite.HeaderLevel{
		Request:  rewrite.HeaderChanges{Set: []rewrite.HeaderSetting{setting("x-to", rewrite.FormatPart{Text: "endpoint"})}},
		Response: rewrite.HeaderChanges{Remove: []string{"x-a"}, Set: []rewrite.HeaderSetting{setting("x-b", rewrite.FormatPart{Text: "client"})}},
	}
	heads := make(chan string, 1)
	endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		heads <- readHeadOf(r)
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\nX-A: b\r\n\r\n")
	})
	f := newFront(t, list(endpoint), allow("echo"), changing(level))
	got := f.exchange("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
	if want := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\nx-b: client\r\n\r\n"; got != want {
		t.Errorf("the client got %q, want %q", got, want)
	}
	if head := <-heads; !strings.Contains(head, "Connection: Upgrade\r\nUpgrade: echo\r\nx-to: endpoint\r\n") {
		t.Errorf("the endpoint got %q", head)
	}
}

// A client that lists a field in Connection removes what it has sent of it, not what its route sets.
func TestHeadersAreSetWhateverConnectionLists(t *testing.T) {
	heads := make(chan string, 1)
	endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		heads <- readHeadOf(r)
		_, _ = io.WriteString(conn, okLine+"Connection: x-user\r\nContent-Length: 0\r\n\r\n")
	})
	set := []rewrite.HeaderSetting{setting("x-user", rewrite.FormatPart{Text: "me"})}
	f := newFront(t, list(endpoint), changing(&rewrite.HeaderLevel{Request: rewrite.HeaderChanges{Set: set}, Response: rewrite.HeaderChanges{Set: set}}))
	conn := f.dial()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: X-User\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if head := <-heads; !strings.Contains(head, "x-user: me\r\n") {
		t.Errorf("the endpoint got %q", head)
	}
	if response.Header.Get("X-User") != "me" {
		t.Errorf("the client got %v", response.Header)
	}
}

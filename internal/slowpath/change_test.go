// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/model"
)

// setting overwrites a header with a value of these parts.
func setting(name string, parts ...model.FormatPart) model.HeaderSetting {
	return model.HeaderSetting{Name: name, How: model.OverwriteOrAdd, Value: model.Format{Parts: parts}}
}

func changing(l *model.HeaderLevel) frontOption {
	return func(_ *Config, r *model.Route) { r.Levels = append(r.Levels, l) }
}

// A switch of protocols says so whatever the route changes.
func TestHeadersOfASwitchAreChanged(t *testing.T) {
	level := &model.HeaderLevel{
		Request:  model.HeaderChanges{Set: []model.HeaderSetting{setting("x-to", model.FormatPart{Text: "endpoint"})}},
		Response: model.HeaderChanges{Remove: []string{"x-a"}, Set: []model.HeaderSetting{setting("x-b", model.FormatPart{Text: "client"})}},
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
	set := []model.HeaderSetting{setting("x-user", model.FormatPart{Text: "me"})}
	f := newFront(t, list(endpoint), changing(&model.HeaderLevel{Request: model.HeaderChanges{Set: set}, Response: model.HeaderChanges{Set: set}}))
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

// The operators whose values two proxies do not share; test/routes compares the others with Envoy.
func TestFormatOfTimeAndAddress(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 6_007_000, time.FixedZone("east", 3600))
	client, other := net.Pipe()
	t.Cleanup(func() { _ = client.Close(); _ = other.Close() })
	for _, tt := range []struct {
		name      string
		forwarded string
		parts     []model.FormatPart
		want      string
	}{
		{"date in UTC", "", []model.FormatPart{{Kind: model.FormatTime, Text: "2006-01-02 15:04:05"}}, "2026-01-02 02:04:05"},
		{"seconds", "", []model.FormatPart{{Kind: model.FormatSeconds}}, "1767319445"},
		{"milliseconds", "", []model.FormatPart{{Kind: model.FormatFraction, Max: 3}}, "006"},
		{"nanoseconds", "", []model.FormatPart{{Kind: model.FormatFraction, Max: 9}}, "006007000"},
		{"remote port", "", []model.FormatPart{{Kind: model.FormatRemotePort}}, "4711"},
		{"remote address", "", []model.FormatPart{{Kind: model.FormatRemoteAddress}}, "127.0.0.9:4711"},
		{"forwarded address", "10.0.0.1, fd00::1", []model.FormatPart{{Kind: model.FormatRemoteAddress}}, "[fd00::1]:0"},
		{"forwarded port", "10.0.0.1", []model.FormatPart{{Kind: model.FormatRemotePort}}, "0"},
		{"direct address of what was forwarded", "10.0.0.1", []model.FormatPart{{Kind: model.FormatDirectAddress}}, "127.0.0.9:4711"},
		{"direct port", "10.0.0.1", []model.FormatPart{{Kind: model.FormatDirectPort}}, "4711"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := &exchange{began: began, downstream: &downstream{conn: addressed{client, netip.MustParseAddrPort("127.0.0.9:4711")}}}
			if tt.forwarded != "" {
				x.head.Fields = []field{{Name: []byte("X-Forwarded-For"), Value: []byte(tt.forwarded)}}
			}
			if diff := cmp.Diff(tt.want, x.format(model.Format{Parts: tt.parts}, nil)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// addressed is a connection from elsewhere.
type addressed struct {
	net.Conn
	remote netip.AddrPort
}

func (a addressed) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(a.remote) }

// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// MaxHead is the longest head of a request, in bytes, that can be asked about: what a
// kernel program can be run on is less than a page.
const MaxHead = 3072

// Query is a request to explain.
type Query struct {
	Method string
	// URL is http://host[:port][/path][?query]. Host and port choose the listener, unless
	// they are a name.
	URL string
	// Headers are "name: value". Host replaces the URL's.
	Headers []string
	// Listener chooses one by name or address, whatever the URL says; empty leaves it to that.
	Listener string
	// Draw is the request's random number, which decides over fractions.
	Draw uint32
	// Netns is the client's network namespace, by its inode number; 0 leaves open who sends the request.
	Netns uint64
	// View is the name of the client's view; empty: that of Netns, or the shared one.
	View string
}

// QueryError says what of a query cannot be explained, and what to change.
type QueryError struct{ text string }

func (e *QueryError) Error() string { return e.text }

func queryError(format string, args ...any) error {
	return &QueryError{fmt.Sprintf(format, args...)}
}

// request is a query that was understood.
type request struct {
	method string
	// target stands in the request line, path is what routes compare: empty for CONNECT.
	target, path string
	// authority as sent.
	authority string
	// service is the URL's host and port, if that is an address.
	service netip.AddrPort
	fields  []field
	draw    uint32
}

// field is a header; its name is in lower case.
type field struct{ name, value string }

// parse reads all of a query but its listener.
func (q *Query) parse() (*request, error) {
	if !isToken(q.Method) {
		return nil, queryError("method %q: want a method such as GET", q.Method)
	}
	u, target, err := splitURL(q.URL)
	if err != nil {
		return nil, err
	}
	r := &request{method: q.Method, authority: u.Host, target: target, draw: q.Draw}
	if r.service, err = serviceOf(u); err != nil {
		return nil, err
	}
	for _, h := range q.Headers {
		if err := r.addHeader(h); err != nil {
			return nil, err
		}
	}
	r.path = r.target
	if r.method == http.MethodConnect {
		// Its target is the authority, whatever Host says.
		r.authority, r.target, r.path = u.Host, u.Host, ""
	}
	if n := len(r.head()); n > MaxHead {
		return nil, queryError("request: its head has %d bytes, more than %d; leave out headers that no route asks about", n, MaxHead)
	}
	return r, nil
}

// splitURL returns scheme and authority of a URL, and path and query as they were written: a client may send what a
// parser of URLs would change or refuse, and routes see it so.
func splitURL(text string) (u *url.URL, target string, err error) {
	rest, isHTTP := strings.CutPrefix(text, "http://")
	at := strings.IndexAny(rest+"/", "/?#")
	u, err = url.Parse("http://" + rest[:at])
	if !isHTTP || err != nil || u.Host == "" || u.User != nil {
		return nil, "", queryError("url %q: want http://host[:port]/path; listeners take plain HTTP", text)
	}
	target, _, _ = strings.Cut(rest[at:], "#")
	if !strings.HasPrefix(target, "/") {
		target = "/" + target
	}
	isForeign := func(c rune) bool { return c <= ' ' || c >= 0x7f }
	if strings.ContainsFunc(target, isForeign) {
		return nil, "", queryError("url %q: a path or query of other bytes than printable ASCII; write those as %%XX", text)
	}
	return u, target, nil
}

// serviceOf returns the address that a URL names; none for a name.
func serviceOf(u *url.URL) (netip.AddrPort, error) {
	port := uint64(80)
	if text := u.Port(); text != "" {
		var err error
		if port, err = strconv.ParseUint(text, 10, 16); err != nil {
			return netip.AddrPort{}, queryError("url %q: port %s: want 1 to 65535", u, text)
		}
	}
	address, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return netip.AddrPort{}, nil
	}
	return unmapped(netip.AddrPortFrom(address, uint16(port))), nil
}

// unmapped gives an address the one form in which it is compared.
func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

func (r *request) addHeader(text string) error {
	name, value, found := strings.Cut(text, ":")
	value = strings.Trim(value, " \t")
	if !found || !isToken(name) || !httpguts.ValidHeaderFieldValue(value) {
		return queryError("header %q: want 'name: value', without control characters", text)
	}
	name = ascii.Lower(name)
	if name != "host" {
		r.fields = append(r.fields, field{name, value})
		return nil
	}
	if value == "" {
		return queryError("header %q: the host must not be empty; leave the header out to take the URL's", text)
	}
	r.authority = value
	return nil
}

func isToken(s string) bool {
	notToken := func(c rune) bool { return !httpguts.IsTokenRune(c) }
	return s != "" && !strings.ContainsFunc(s, notToken)
}

// head is the request as a client sends it.
func (r *request) head() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nhost: %s\r\n", r.method, r.target, r.authority)
	for _, f := range r.fields {
		fmt.Fprintf(&b, "%s: %s\r\n", f.name, f.value)
	}
	b.WriteString("\r\n")
	return []byte(b.String())
}

// forTable is what routing with a table looks at, with the path as it was sent.
func (r *request) forTable(t *model.RouteTable) *matcher.Request {
	authority := t.Host.Apply(r.authority)
	return &matcher.Request{
		Authority: authority,
		Path:      r.path,
		Method:    r.method,
		Scheme:    matcher.SchemeOf("", r.values("x-forwarded-proto")),
		Connect:   r.method == http.MethodConnect,
		Values: func(name string) []string {
			if name == "host" || name == ":authority" {
				return []string{authority}
			}
			return r.values(name)
		},
		Draw: uint64(r.draw),
	}
}

func (r *request) values(name string) []string {
	var values []string
	for _, f := range r.fields {
		if f.name == name {
			values = append(values, f.value)
		}
	}
	return values
}

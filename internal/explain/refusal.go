// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/model"
)

// refusal is the status of a request that is answered before any route is looked at, and why.
type refusal struct {
	status int
	why    string
}

func (r *refusal) action() *Action { return &Action{Kind: Refused, Status: r.status, Because: r.why} }

func badRequest(format string, args ...any) *refusal {
	return &refusal{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// maxFields of a head, and maxOptions that its Connection fields list.
const (
	maxFields  = 100
	maxOptions = 9
)

var standardMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace, http.MethodPatch,
}

// refused says which rule of the slow path a request breaks, in the order in which the slow path looks; nil: none. What a query cannot say is not looked
// for, such as bytes that no field may have.
func (r *request) refused(t *model.RouteTable) *refusal {
	if upper := ascii.Upper(r.method); upper != r.method && slices.Contains(standardMethods, upper) {
		return badRequest("method %s: a standard method in another case; write %s", r.method, upper)
	}
	if r.method == http.MethodConnect {
		host, port, err := net.SplitHostPort(r.target)
		if n, ok := length(port); err != nil || host == "" || !ok || n > math.MaxUint16 || !isAuthority(r.target) {
			return badRequest("CONNECT to %q: want host:port", r.target)
		}
	}
	if len(r.fields)+1 > maxFields { // and Host
		return &refusal{http.StatusRequestHeaderFieldsTooLarge, fmt.Sprintf("%d fields; there may be %d", len(r.fields)+1, maxFields)}
	}
	for _, check := range []func() *refusal{r.badField, r.badFraming, r.badOptions, r.badLengths} {
		if out := check(); out != nil {
			return out
		}
	}
	has := func(f field) bool { return strings.Contains(f.name, "_") }
	if i := slices.IndexFunc(r.fields, has); i >= 0 && t.Underscores == model.RefuseUnderscores {
		return badRequest("header %s: has a \"_\" in its name (headers_with_underscores_action)", r.fields[i].name)
	}
	return nil
}

// badField looks at each field on its own.
func (r *request) badField() *refusal {
	if !isAuthority(r.authority) {
		return badRequest("host %q: want a name or an address, and a port", r.authority)
	}
	for _, f := range r.fields {
		if _, ok := length(f.value); f.name == "content-length" && !ok {
			return badRequest("content-length %q: want a number", f.value)
		}
		if f.name == "transfer-encoding" && !ascii.EqualFold(f.value, "chunked") {
			return &refusal{http.StatusNotImplemented, fmt.Sprintf("transfer-encoding %q: only chunked is understood", f.value)}
		}
	}
	return nil
}

// badFraming is that of CONNECT, whose body has no meaning.
func (r *request) badFraming() *refusal {
	if r.method != http.MethodConnect {
		return nil
	}
	if len(r.values("transfer-encoding")) > 0 {
		return &refusal{http.StatusNotImplemented, "CONNECT with a transfer-encoding"}
	}
	// The last one counts; a second one is refused below.
	if all := r.values("content-length"); len(all) > 0 {
		if n, _ := length(all[len(all)-1]); n > 0 {
			return badRequest("CONNECT with a body")
		}
	}
	return nil
}

// badOptions looks at what Connection lists.
func (r *request) badOptions() *refusal {
	n := 0
	for _, value := range r.values("connection") {
		for option := range strings.SplitSeq(value, ",") {
			switch option = ascii.Lower(ascii.TrimSpace(option)); option {
			case "":
				continue
			case "host", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto":
				return badRequest("connection lists %s, which is not for one connection alone", option)
			}
			if option[0] == ':' {
				return badRequest("connection lists %s", option)
			}
			n++
		}
	}
	if n > maxOptions {
		return badRequest("connection lists %d options; there may be %d", n, maxOptions)
	}
	return nil
}

// badLengths looks for two answers to the question where the body ends.
func (r *request) badLengths() *refusal {
	lengths, codings := len(r.values("content-length")), len(r.values("transfer-encoding"))
	if lengths+codings > 1 {
		return badRequest("%d content-length and %d transfer-encoding: there may be one of both", lengths, codings)
	}
	if codings == 0 {
		return nil
	}
	for _, name := range []string{"transfer-encoding", "trailer", "content-length"} {
		if httpguts.HeaderValuesContainsToken(r.values("trailer"), name) {
			return badRequest("trailer announces %s, which frames the message", name)
		}
	}
	return nil
}

// refusedByRoute says why a route that wins does not serve a request; nil: it does.
func (r *request) refusedByRoute(route *model.Route, path string) *refusal {
	protocol := strings.Join(slices.DeleteFunc(r.values("upgrade"), func(p string) bool { return p == "" }), ",")
	asks := len(r.values("upgrade")) > 0 && httpguts.HeaderValuesContainsToken(r.values("connection"), "upgrade") && !ascii.EqualFold(protocol, "h2c")
	switch {
	case asks && !route.Allows(protocol):
		return &refusal{http.StatusForbidden, fmt.Sprintf("upgrade to %q: the route's upgrade_configs do not allow it", protocol)}
	case r.method == http.MethodConnect && !route.Allows(model.UpgradeConnect):
		return &refusal{http.StatusForbidden, "CONNECT: the route's upgrade_configs do not allow it"}
	case path != "" && !strings.HasPrefix(path, "/"):
		return badRequest("the rewritten path %q does not begin with /", path)
	}
	return nil
}

// length reads a Content-Length, or a port.
func length(text string) (int64, bool) {
	if strings.ContainsFunc(text, func(c rune) bool { return c < '0' || c > '9' }) {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	return int64(n), err == nil && n <= math.MaxInt64
}

// isAuthority checks a host by its characters, without those of user information.
func isAuthority(text string) bool {
	bad := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-._~%!$&'()*+,;=:[]", c)
	}
	return text != "" && text[0] != ':' && !strings.ContainsFunc(text, bad)
}

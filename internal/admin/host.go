// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/ascii"
)

// forHosts answers requests whose Host is an address, a name of this host alone, or one of names. A page in a browser may have a name of its own that
// leads here (DNS rebinding), and what is answered to it could be read by whoever made the page; it cannot have any of these. Who sends no
// Host is no browser.
func forHosts(names []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "" || isOwn(hostname(r.Host), names) {
			next.ServeHTTP(w, r)
			return
		}
		writeText(w, http.StatusForbidden, fmt.Sprintf("Host %.100q: the admin API answers to addresses, localhost, and names that --admin-host allows: "+
			"others may be those of a page that wants to read it from a browser\n", r.Host))
	})
}

// hostname is a Host, or the address of a listener, without its port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

func isOwn(name string, names []string) bool {
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	name = ascii.Lower(strings.TrimSuffix(name, "."))
	return name == "localhost" || strings.HasSuffix(name, ".localhost") ||
		slices.ContainsFunc(names, func(n string) bool { return n != "" && ascii.Lower(n) == name })
}

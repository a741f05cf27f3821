// SPDX-License-Identifier: Apache-2.0

package head

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/xlb-project/xlb/internal/ascii"
)

// ParseLength reads 1*DIGIT that fits an int64 (RFC 9110 section 8.6).
func ParseLength(b []byte) (int64, bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(string(b), 10, 64)
	return int64(n), err == nil && n <= math.MaxInt64
}

// IsAuthority checks uri-host [":" port] by its characters (RFC 3986 section 3.2.2); user information is refused (RFC 9110 section 4.2.4).
func IsAuthority[T string | []byte](text T) bool {
	for i := range len(text) {
		if c := text[i]; !isAlphanumeric(c) && strings.IndexByte("-._~%!$&'()*+,;=:[]", c) < 0 {
			return false
		}
	}
	return len(text) > 0 && text[0] != ':'
}

// standardMethods are those of RFC 9110 section 9.3 and RFC 5789.
var standardMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace, http.MethodPatch,
}

// checkMethod wants a token that is no standard method in another case. Case matters (RFC 9110 section 9.1), but not to every server: one that takes
// "head" for HEAD sends no body where the proxy waits for one, and "post" would pass a route that is for others than POST. Envoy refuses
// them too.
func checkMethod(b []byte) *Refusal {
	if !isToken(b) {
		return malformed("method %q: want a method such as GET", b)
	}
	upper := ascii.Upper(string(b))
	if string(b) != upper && slices.Contains(standardMethods, upper) {
		return malformed("method %s: a standard method in another case; write %s", b, upper)
	}
	return nil
}

// isToken reports a token (RFC 9110 section 5.6.2).
func isToken(b []byte) bool {
	for _, c := range b {
		if !httpguts.IsTokenRune(rune(c)) {
			return false
		}
	}
	return len(b) > 0
}

// IsValueByte reports field-vchar, SP or HTAB (RFC 9110 section 5.5).
func IsValueByte(c byte) bool { return c == '\t' || c >= ' ' && c != 0x7f }

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func tooMany(are, may int) string { return fmt.Sprintf("%d fields; there may be %d", are, may) }

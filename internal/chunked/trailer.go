// SPDX-License-Identifier: Apache-2.0

package chunked

import "github.com/xlb-project/xlb/internal/ascii"

// forbidden trailers are about framing or routing: enum field_id in bpf/lib/abi.h
// (RFC 9110, section 6.5.1).
var forbidden = map[string]bool{
	"connection": true, "content-length": true, "expect": true, "host": true, "http2-settings": true, "keep-alive": true,
	"proxy-connection": true, "te": true, "trailer": true, "transfer-encoding": true, "upgrade": true,
}

// maxForbidden is the length of the longest of them.
const maxForbidden = len("transfer-encoding")

// trailerAllowed reports whether a field may stand behind a chunked body,
// whatever the case of its name.
func trailerAllowed(name string) bool { return !forbidden[ascii.Lower(name)] }

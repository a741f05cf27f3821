// SPDX-License-Identifier: Apache-2.0

package head

import "bytes"

// IsTooOld reports that the bytes begin with a request line of HTTP/0.9, which has no version, or of HTTP/0.x. Parse calls it malformed; its client
// is better told to upgrade (RFC 9110 section 15.5.22), as by Envoy.
func IsTooOld(raw []byte) bool {
	line, _, ok := CutLine(raw)
	if !ok {
		return false
	}
	method, rest, ok := bytes.Cut(line, []byte{' '})
	target, version, _ := bytes.Cut(rest, []byte{' '})
	if !ok || checkMethod(method) != nil || len(target) == 0 || target[0] != '/' {
		return false
	}
	minor, isOld := bytes.CutPrefix(version, []byte("HTTP/0."))
	return len(version) == 0 || isOld && len(minor) == 1 && '0' <= minor[0] && minor[0] <= '9'
}

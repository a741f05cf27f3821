// SPDX-License-Identifier: Apache-2.0

package h1

import "io"

// lengthBody is the data of a body of known length.
type lengthBody struct {
	r    io.Reader
	left int64
}

// Read implements io.Reader. The end of the body is io.EOF; that of the connection before it is not.
func (b *lengthBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if b.left == 0 {
		return n, io.EOF // how the connection ends behind it does not concern this body
	}
	return n, unexpected(err)
}

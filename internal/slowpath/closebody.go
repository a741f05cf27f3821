// SPDX-License-Identifier: Apache-2.0

package slowpath

import "io"

// closeBody is a body that ends with its connection.
type closeBody struct {
	io.Reader
	// resetSeen returns the reset that has been taken for the end, if one has.
	resetSeen func() error
}

// Read implements io.Reader.
func (b *closeBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		if reset := b.resetSeen(); reset != nil {
			return n, reset
		}
	}
	return n, err
}

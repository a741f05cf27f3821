// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"io"

	"github.com/xlb-project/xlb/internal/shares"
)

// Paced reads for somebody who takes turns: while bytes are waited for, others work.
type Paced struct {
	io.Reader
	Turn *shares.Turn
}

// Read implements io.Reader.
func (p Paced) Read(b []byte) (int, error) {
	p.Turn.Rest()
	n, err := p.Reader.Read(b)
	p.Turn.Work()
	return n, err
}

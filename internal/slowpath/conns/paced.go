// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"io"

	"github.com/xlb-project/xlb/internal/shares"
)

// Paced reads for the holder of a ticket, and yields the ticket while it waits for bytes.
type Paced struct {
	io.Reader
	Ticket *shares.Ticket
}

// Read implements io.Reader.
func (p Paced) Read(b []byte) (int, error) {
	p.Ticket.Yield()
	n, err := p.Reader.Read(b)
	p.Ticket.Work()
	return n, err
}

// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"strings"
	"time"

	"github.com/xlb-project/xlb/internal/plural"
)

// Guarded is a row of /xlb/guards: something that the daemon has taken off the fast path by itself.
type Guarded struct {
	// Scope is "kernel" where the fast path cannot run at all, or "machine", "endpoint" or
	// "client".
	Scope string `json:"scope"`
	// Endpoint is its address, where the scope is that.
	Endpoint string `json:"endpoint,omitempty"`
	// Connections is how many are meant, where the scope is "client".
	Connections int    `json:"connections,omitempty"`
	Why         string `json:"why"`
	// Since is when that was decided, Until when it ends; null where it is not one moment, or has
	// no end while the daemon runs.
	Since *time.Time `json:"since,omitempty"`
	Until *time.Time `json:"until,omitempty"`
}

// What says what is off the fast path.
func (g *Guarded) What() string {
	switch g.Scope {
	case "endpoint":
		return "endpoint " + g.Endpoint
	case "client":
		return plural.Of(g.Connections, "client connection")
	case "machine":
		return "the whole machine"
	}
	return "this kernel"
}

// String is a line about it.
func (g *Guarded) String() string {
	text := g.What() + " off the fast path"
	if g.Until != nil {
		text += " until " + g.Until.UTC().Format(time.RFC3339)
	}
	return text + ": " + g.Why
}

// maxReadyRows bounds how many lines follow the first of /ready.
const maxReadyRows = 16

// readyText is what /ready answers: probes read its first line at most.
func readyText(guarded []Guarded) string {
	var b strings.Builder
	b.WriteString("LIVE\n")
	for i := range guarded {
		if i == maxReadyRows {
			fmt.Fprintf(&b, "and %d more; see: xlb get guards\n", len(guarded)-i)
			break
		}
		b.WriteString(guarded[i].String() + "\n")
	}
	return b.String()
}

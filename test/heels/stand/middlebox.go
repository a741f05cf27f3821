// SPDX-License-Identifier: Apache-2.0

package stand

import (
	"fmt"
	"strings"
)

// Stripped says in which segments a middlebox takes a TCP option away.
type Stripped string

// The segments.
const (
	SYN    Stripped = "syn"
	SYNACK Stripped = "syn|ack"
)

// Strip has the router take an option away, of a kind, from segments that it forwards: it writes NOPs in its place. Called again it
// replaces what it did; with nobody it ends.
func (s *Stand) Strip(kind uint8, from ...Stripped) error {
	rules := "table inet middlebox\ndelete table inet middlebox\n"
	if len(from) > 0 {
		rules += "table inet middlebox {\n\tchain forward {\n\t\ttype filter hook forward priority 0;\n"
		for _, segment := range from {
			rules += fmt.Sprintf("\t\ttcp flags & (syn|ack) == %s counter reset tcp option %d\n", segment, kind)
		}
		rules += "\t}\n}\n"
	}
	_, err := s.Router.Run(rules, "nft", "-f", "-")
	return err
}

// WatchResets has the router count the resets that it forwards.
func (s *Stand) WatchResets() error {
	_, err := s.Router.Run("table inet watch { counter resets { }; chain forward { type filter hook forward priority 1; tcp flags & rst == rst counter name resets; }; }", "nft", "-f", "-")
	return err
}

// Resets is how many it counted.
func (s *Stand) Resets() (n int64, err error) {
	out, err := s.Router.Run("", "nft", "list", "counter", "inet", "watch", "resets")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(out, "packets ")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		return 0, fmt.Errorf("read the router's counter: %w: %s", err, out)
	}
	return n, nil
}

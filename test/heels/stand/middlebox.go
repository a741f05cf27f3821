// SPDX-License-Identifier: Apache-2.0

package stand

import (
	"fmt"
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

// Lost says which segment of every connection is lost once.
type Lost string

// The segments.
const (
	FirstSYNACK Lost = "tcp flags & (syn | ack) == (syn | ack)"
	FirstFIN    Lost = "tcp flags & fin == fin"
)

// Lose has the router drop the first segment of a kind of each connection that it forwards. Connections are told apart by the client's port.
func (s *Stand) Lose(what Lost) error {
	rules := "table inet loss {\n\tset seen { type inet_service; flags dynamic; size 65535; }\n\tchain forward {\n\t\ttype filter hook forward priority 0;\n"
	for _, port := range []string{"sport", "dport"} {
		rules += fmt.Sprintf("\t\t%s tcp %s >= 20000 tcp %s != @seen add @seen { tcp %s } drop\n", what, port, port, port)
	}
	_, err := s.Router.Run(rules+"\t}\n}\n", "nft", "-f", "-")
	return err
}

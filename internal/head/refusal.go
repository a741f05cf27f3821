// SPDX-License-Identifier: Apache-2.0

package head

import "fmt"

// Kind of a refusal; each has a status of its own.
type Kind uint8

// What is wrong with a head.
const (
	// Malformed: 400.
	Malformed Kind = iota + 1
	// TooLarge: 431.
	TooLarge
	// NotImplemented: 501.
	NotImplemented
)

// Refusal is why a head must not pass.
type Refusal struct {
	Kind Kind
	// Why names what is wrong, in quotes where the client has written it.
	Why string
}

func malformed(format string, args ...any) *Refusal {
	return &Refusal{Malformed, fmt.Sprintf(format, args...)}
}

func notImplemented(format string, args ...any) *Refusal {
	return &Refusal{NotImplemented, fmt.Sprintf(format, args...)}
}

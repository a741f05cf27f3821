// SPDX-License-Identifier: Apache-2.0

// Package logging is what the log of every part has in common: its form, its levels, and what a line leaves out.
package logging

import (
	"io"
	"log/slog"
)

// absent is the value of an attribute that a line leaves out.
type absent struct{}

// NonZero is a value of an attribute that NewHandler leaves out, with its key, if the value is zero: for what a reader needs to hear of only where it is
// there, as a number of lines that were left out, or the cgroup of a client that has gone.
func NonZero[T comparable](value T) any {
	var zero T
	if value == zero {
		return absent{}
	}
	return value
}

// NewHandler writes lines of text at a level or above.
func NewHandler(w io.Writer, level slog.Leveler) slog.Handler {
	return slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: leaveOut})
}

// leaveOut is for slog.HandlerOptions: an attribute without key and value is none.
func leaveOut(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindAny && a.Value.Any() == any(absent{}) {
		return slog.Attr{}
	}
	return a
}

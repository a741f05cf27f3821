// SPDX-License-Identifier: Apache-2.0

package compile

import "fmt"

// Note says what the compiled form could not express, and hence what the slow
// path serves, or what it approximates. It is never a fault of the configuration.
type Note struct {
	// Where in the configuration: `listener "web": virtual host "api": route 3`.
	Where  string
	Reason string
}

// String joins the two.
func (n Note) String() string { return n.Where + ": " + n.Reason }

// tooHard ends the compilation of a table: only the slow path can evaluate it.
type tooHard struct {
	reason string
}

func (e *tooHard) Error() string { return e.reason }

func tooHardf(format string, args ...any) error {
	return &tooHard{reason: fmt.Sprintf(format, args...)}
}

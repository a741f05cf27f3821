// SPDX-License-Identifier: Apache-2.0

// Package note is what the compiler says of a configuration that the kernel cannot serve as a whole.
package note

// Note says what the compiled form could not express, and hence what the slow
// path serves, or what it approximates. It is never a fault of the configuration.
type Note struct {
	// Where in the configuration: `listener "web": virtual host "api": route 3`.
	Where  string
	Reason string
}

// String joins the two.
func (n Note) String() string { return n.Where + ": " + n.Reason }

// SPDX-License-Identifier: Apache-2.0

// Package cases says what is measured: the names of the cases, the load of each
// (Load), what it varies (Scaled), and the options of a run with their flags.
//
// It starts nothing. How a load is made is in package clients, what one turn
// does beside that in package bed, what its table shows in package report.
// A new case begins here: a name in names.go, a load, and what it needs.
package cases

// SPDX-License-Identifier: Apache-2.0

// Package privilege has the daemon keep the capabilities that it uses (capabilities(7)), and no others.
//
// They are dropped once, before the daemon opens or loads anything: which it uses follows from its arguments alone, and its start needs no other than its work.
// So there is no moment between the two at which something is done with more, and what a test shows of a running daemon holds for its start, too.
package privilege

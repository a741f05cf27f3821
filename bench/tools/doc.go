// SPDX-License-Identifier: Apache-2.0

// Package tools finds the programs that a run needs.
package tools

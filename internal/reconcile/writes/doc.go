// SPDX-License-Identifier: Apache-2.0

// Package writes changes single entries of maps, and counts what is written.
package writes

// SPDX-License-Identifier: Apache-2.0

// Package model checks all interleavings of a small XLB: what a lease is worth when programs count
// bytes before the kernel moves them. docs/model.md says what is in the model, and what is not.
package model

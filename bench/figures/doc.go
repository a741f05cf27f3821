// SPDX-License-Identifier: Apache-2.0

// Package figures is what was measured: a Measurement is one turn of one peer, a
// Row sums up its turns over the rounds, and a Spread is one figure of that.
// Ratios are built within each round. results.json is made of these types.
package figures

// SPDX-License-Identifier: Apache-2.0

// Package plot draws bars, lines and curves as SVG. It knows neither peers nor
// cases: package report says what is drawn, and in which colours.
package plot

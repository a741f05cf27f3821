// SPDX-License-Identifier: Apache-2.0

// Package report says what a run has found: results.json, the tables on a
// terminal and in Markdown, which plots are drawn, and which of the project's
// targets are met (targets.go). Merge makes one report of several.
package report

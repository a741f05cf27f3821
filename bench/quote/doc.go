// SPDX-License-Identifier: Apache-2.0

// Package quote holds pages to the measured results that they quote. A figure of a page has an HTML comment behind it, which
// names the run and the value:
//
//	8.0<!--figure 2026-11-29-reference keepalive connections=32 rate_to_envoy--> times Envoy's requests
//
// [Pages.Check] compares both, rounded as the page has it, and [Pages.Update] writes what the run says. A run is a directory of
// bench/results, or DIRECTORY/NAME for its NAME.json. Then come a case and settings of a row (topology=same and peer=xlb unless
// they are given), and the path of a value in that row of results.json: a spread without more is its median, A+B a sum. With
// lowest or highest before the path several rows may fit. Of a whole run there are targets.met, .missed and .measured.
//
// Two kinds of comments enclose text that is made from the runs:
//
//	<!--table NAME RUN...--> ... <!--end-->     a table (tables.go)
//	<!--notice RUN...-->     ... <!--end-->     of which code the figures are
//
// Where a page is held to be complete, each other number is one of a figure's settings, or a <!--given N...--> of its paragraph.
package quote

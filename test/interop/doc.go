// SPDX-License-Identifier: Apache-2.0

// Package interop runs real HTTP clients against real HTTP servers through XLB,
// each pair in each topology, and prints what worked as a matrix.
//
// A client is a program under clients/. It is started as
//
//	PROGRAM BASE_URL DIRECTORY SCRATCH
//
// reads names of cases from standard input, one a line, and writes one line of
// JSON for each, an [answer]. DIRECTORY holds the files that servers serve and
// clients upload; SCRATCH is a directory of its own. It ends with its input.
//
// A server is a program under servers/. It is started as
//
//	PROGRAM ADDRESS PORT DIRECTORY STORE SCRATCH
//
// and listens there until SIGTERM. It serves:
//
//	GET, HEAD /small/NN, /large  the file, with Content-Length and ETag; 304 for If-None-Match
//	GET /chunked                 the file, chunked, with the trailer X-Check: interop
//	PUT /upload/NAME             keeps the body in STORE/NAME, the trailer X-Check in
//	                             STORE/NAME.trailer; answers 2xx
//
// Queries mean nothing to it. Clients report and the test judges: it knows the
// files, and looks into STORE. What a program cannot do stands, with the reason,
// in the table inabilities; nothing else is left out. A case that fails is tried
// again without XLB, which tells whose failure it is.
package interop

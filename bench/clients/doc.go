// SPDX-License-Identifier: Apache-2.0

// Package clients makes load inside a lab: by wrk, by fortio, by commands of
// this very program (packages load, queue and websocket) and by the load
// programs of applications. Each way returns a load.Report.
package clients

// SPDX-License-Identifier: Apache-2.0

// Package pods measures one daemon that serves the pods of a host (package test/pods): how soon one is served that has just begun, while others come and
// go, and what memory each takes.
package pods

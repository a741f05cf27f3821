// SPDX-License-Identifier: Apache-2.0

// Package viewctl puts the file of --views in force, at the start and when it has changed: it has the configurations of views come and go, and workloads see them.
package viewctl

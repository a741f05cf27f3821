// SPDX-License-Identifier: Apache-2.0

// Package views reads which workloads have a configuration of their own: the file of --views. A view is what a workload sees, the shared configuration or one
// that the file names.
package views

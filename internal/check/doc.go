// SPDX-License-Identifier: Apache-2.0

// Package check finds out what this machine can do for XLB: kernel, cgroup mount,
// privileges and limits. It believes probes and not version numbers, because vendors
// backport. A probe loads tiny programs and attaches them to nothing but maps of its own.
package check

// SPDX-License-Identifier: Apache-2.0

// Package heelstest has what tests of the agent's packages stand on: hosts, each a network namespace, on one wire; a cgroup and a BPF file system of a
// test's own. It needs root.
package heelstest

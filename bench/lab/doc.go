// SPDX-License-Identifier: Apache-2.0

// Package lab builds the place a benchmark runs in and takes it away again:
// network namespaces without a route out, a cgroup v2 tree that separates
// clients, endpoints and balancers, and the processes inside them.
//
// Every topology runs in namespaces of its own, so its ports collide with
// nothing on the machine, its sysctls change nothing outside, and an
// interception that fails sends nothing off the machine.
package lab

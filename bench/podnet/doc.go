// SPDX-License-Identifier: Apache-2.0

// Package podnet makes the pods of a host as a node of Kubernetes has them: each is a network namespace with an address of its own, a veth pair to the
// host, which routes, a cgroup like a container's, and an nginx of one process. It starts what serves them: one XLB for the host, or an Envoy in each pod,
// to which rules of that pod's own network stack redirect.
package podnet

// SPDX-License-Identifier: Apache-2.0

// Package anchor holds the daemon's ends of intercepted connections.
//
// Most anchors never speak: their requests stay in the kernel. So an idle one is a descriptor, an epoll entry and a
// small struct. When bytes arrive on one, the kernel has declined them, and a goroutine serves that connection until it is quiet
// again; then it is offered back to the fast path.
package anchor

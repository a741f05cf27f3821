// SPDX-License-Identifier: Apache-2.0

// Package datapath loads the kernel programs, attaches them to cgroups and takes them away again.
//
// Nothing is pinned: links and maps live as long as the daemon's descriptors, so a daemon that dies leaves no program
// behind and connections are no longer intercepted. What joins the socket maps is a dispatcher that calls the logic through a
// program array, so the logic can be replaced under live sockets.
package datapath

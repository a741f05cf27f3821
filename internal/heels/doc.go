// SPDX-License-Identifier: Apache-2.0

// Package heels is the layer-4 agent: hosts talk directly after the SYN, whatever layer-4 balancer stands between them.
//
// The client's SYN carries a TCP option with its own address and the VIP. The server that the balancer has chosen takes the SYN as the client's own, and
// its SYN-ACK, which comes from the VIP as far as the client can see, names the server's address. From then on the client's packets are
// sent to that address, and the server's come from the VIP. Both ends' TCP sees one address for all of the connection; tc programs change
// packets by what sock_ops programs have left in the sockets' storage. The kernel programs are in bpf/heels_client.bpf.c and bpf/heels_server.bpf.c.
//
// Everything is pinned. Connections need the programs, not this process: it loads, configures and shows. Packages below this one have the parts: the kernel
// programs (kernel), the configuration (settings), the pin directory and what is attached by it (pins), the routes to servers and clients (routes), resets
// for balancers (reset), and what the machine needs (check).
package heels

// SPDX-License-Identifier: Apache-2.0

package datapath

// The kernel programs; their shared types are generated in internal/maps.
//go:generate go tool bpf2go -tags linux -target bpfel -go-package datapath -no-global-types xlb ../../bpf/xlb.bpf.c -- -I/usr/include/x86_64-linux-gnu

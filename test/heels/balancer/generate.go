// SPDX-License-Identifier: Apache-2.0

package balancer

//go:generate go tool bpf2go -tags linux -target bpfel -go-package balancer -type service_key -type service -type real -type source -type counter -type encapsulation programs balancer.bpf.c -- -I/usr/include/x86_64-linux-gnu

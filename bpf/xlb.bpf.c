// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* All hooks in one object, so that they share their maps. Each hook family has its own file. */
#include "connect.bpf.c"
#include "explain.bpf.c"
#include "release.bpf.c"
#include "request.bpf.c"
#include "response.bpf.c"
#include "selftest.bpf.c"
#include "settle.bpf.c"
#include "sockops.bpf.c"
#include "sockopt.bpf.c"
#include "urgent.bpf.c"
#include "whoami.bpf.c"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

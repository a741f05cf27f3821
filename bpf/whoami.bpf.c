// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* syscall program, run once by the daemon: the connect hook exempts the daemon by its thread group, which
 * only the kernel can name when the daemon lives in a PID namespace.
 */
#include "lib/maps.h"

SEC("syscall")
int xlb_whoami(void *ctx)
{
	(void)ctx;
	return bpf_get_current_pid_tgid() >> 32;
}

// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/pool"
	"github.com/xlb-project/xlb/internal/quota"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/status"
	"github.com/xlb-project/xlb/internal/workload"
)

// leastEntries is what each table has that workloads share, however few descriptors there are.
const leastEntries = 16

// descriptors is how many files the daemon may have open (RLIMIT_NOFILE's soft limit).
func descriptors() (int, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("read the limit of open files (RLIMIT_NOFILE): %w", err)
	}
	return int(min(limit.Cur, math.MaxInt32)), nil
}

// maxConnections is how many connections of clients are intercepted, of which the kernel can have so many, by a daemon with so many descriptors.
func maxConnections(files int, kernel uint32) uint32 {
	return min(kernel, uint32(max(files/2, leastEntries)))
}

// maxRequests is how many requests user space has in progress, of a daemon with so many descriptors.
func maxRequests(files int) int { return max(files/4, leastEntries) }

// maxIdle is how many connections to endpoints it keeps that no request uses.
func maxIdle(files int) int { return max(files/8, leastEntries) }

// ownFiles is how many descriptors the daemon has for itself: programs, maps, links, listeners. With a small configuration it has 135 open, and one more for each
// page of a map that grows.
const ownFiles = 256

// maxISocks is how many descriptors are for connections to endpoints that the kernel moves requests to, and for what each workload takes: what the others leave.
func maxISocks(files int) int { return max(files/8-ownFiles, files/32, leastEntries) }

// maxNamespaces is how many network namespaces may be served, or left alone, beside the daemon's own: with a quarter of the descriptors, of which one maker has
// a ninth. I-socks are fewer for it.
func maxNamespaces(files int) int { return max(files/4/pool.DescriptorsOfWorkload, leastEntries) }

// maxDestinations is how many pairs of a workload and a cluster have counts, and series, of their own: those of 800 pods with ten destinations each.
const maxDestinations = 8192

// maxBlocks is how many blocks of memory there are for long heads of requests, and for bodies that may be sent again: 256 MiB, of which one pod has a half, as 128
// bodies of 1 MiB at a time or 1,024 heads of 60 KiB. The daemon's heap may be twice that, as the collector has it. It is no part of the host's memory, so that the
// same clients are served alike on each node.
const maxBlocks = 256 << 20 / h1.BlockSize

// tableOf is one that has so many entries while workloads share it. The host alone may have any number: it takes nothing from others.
func tableOf(size int) *quota.Table[workload.ID] {
	table := quota.New[workload.ID](math.MaxInt, 1)
	table.SetSize(size)
	return table
}

// quotas are the tables that workloads share, as they are shown.
func (n *Node) quotas() []status.Quota {
	return []status.Quota{
		{Of: admin.QuotaConnections, Usage: n.anchors.ConnectionUsage},
		{Of: admin.QuotaISocks, Usage: n.pool.Usage},
		{Of: admin.QuotaRequests, Usage: n.proxy.RequestUsage},
		{Of: admin.QuotaIdleConnections, Usage: n.proxy.IdleUsage},
		{Of: admin.QuotaCopies, Usage: n.proxy.CopyUsage},
		{Of: admin.QuotaMemory, Usage: n.proxy.MemoryUsage},
		{Of: admin.QuotaNamespaces, Usage: n.workloads.Usage},
		{Of: admin.QuotaDestinations, Usage: n.ledger.Usage},
	}
}

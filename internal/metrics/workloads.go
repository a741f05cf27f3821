// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxListedWorkloads bounds the series about single workloads. Each one is remembered by Prometheus for hours after it has ended, and a host may have pods that
// come and go all day; more than a kubelet's default of 110 pods, and than the 500 that large hosts are set up for, are listed all the same.
const maxListedWorkloads = 1024

// Workload is a network namespace whose processes are balanced, or are known not to be. The names are others': they may have any bytes.
type Workload struct {
	// ID is the daemon's number of it, 0 for its own; no two have one number.
	ID uint32
	// Netns is the inode number of its file.
	Netns uint64
	// Name is by what people know it.
	Name  string
	State string
	// View is the name of its configuration; empty: it sees the shared one.
	View string
	// PodNamespace, Pod, PodUID, Container and Runtime are empty where they are not known.
	PodNamespace, Pod, PodUID, Container, Runtime string
	// Connections of its clients that are intercepted and open.
	Connections uint64
	// Destinations are what was carried for it since it is served, by cluster; empty for what came to none, and for clusters together without an entry.
	Destinations []Destination
	// Uses are what it has of each table that the workloads share, by Quota.Of; empty where they are counted with another workload's.
	Uses map[string]Use
}

// Destination is what was carried for a workload to a cluster.
type Destination struct {
	Cluster                               string
	Requests, RequestBytes, ResponseBytes uint64
	// SlowWorkSeconds in which the daemon has worked for them in user space, ProgramSeconds in which programs in the kernel have run for them.
	SlowWorkSeconds, ProgramSeconds float64
}

// NRI is the state of the connection to the container runtime by which it reports its pods (NRI).
type NRI struct {
	Connected bool `json:"connected"`
	// Pods are those that the runtime has reported before a container of theirs ran, Late those for which it did not wait until they were served.
	Pods uint64 `json:"pods"`
	Late uint64 `json:"late"`
	// LeftOut are those that were not taken in, since they are too many or have names that Kubernetes does not allow, Lost events that found no room.
	LeftOut uint64 `json:"left_out"`
	Lost    uint64 `json:"lost"`
	// Failed are connections that ended, or could not be made.
	Failed uint64 `json:"failed"`
}

var (
	workloadInfo = describe("xlb_workload_info",
		"1, of a network namespace whose processes are balanced, or are known not to be: its number, the inode number of its file, its state, the view that it sees, empty for the shared configuration, and what is known of its pod and container. The daemon's own has the id 0.",
		"id", "netns", "state", "view", "pod_namespace", "pod", "pod_uid", "container", "runtime")
	workloadConnections = describe("xlb_workload_connections",
		"Intercepted connections of the clients in a network namespace that are open, by its number, and the name of its pod or another one.", "id", "workload")
	workloadRequests = describe("xlb_workload_requests_total",
		"Requests of the clients in a network namespace to a cluster that have begun on the fast path, or ended in user space, whatever their answer was. The cluster is empty for those that came to none, and for all together of further clusters, when it has as many series as are left free (xlb_quota_size of destinations).", "id", "workload", "cluster")
	workloadRequestBytes = describe("xlb_workload_request_bytes_total",
		"Bytes of those requests, heads and bodies, and what follows in tunnels; of upgraded connections in user space when they end.", "id", "workload", "cluster")
	workloadResponseBytes = describe("xlb_workload_response_bytes_total",
		"Bytes of their responses, likewise.", "id", "workload", "cluster")
	workloadSlowWorkSeconds = describe("xlb_workload_slow_work_seconds_total",
		"Time of the turns that the daemon has worked for those requests (xlb_slow_work_total), by the clock: processor time, as long as the daemon has the processors that it asks for.", "id", "workload", "cluster")
	workloadProgramSeconds = describe("xlb_workload_programs_seconds_total",
		"Time in which programs in the kernel have run for those requests, estimated from one run in 64. Moving the bytes is no part of it: the kernel charges that to the process that sends.", "id", "workload", "cluster")
	workloadsUnlisted = describe("xlb_workloads_unlisted",
		"Network namespaces without series of their own: the "+strconv.Itoa(maxListedWorkloads)+" with the lowest numbers have some.")
	nriConnected = describe("xlb_nri_connected",
		"1 while a container runtime reports its pods (NRI).")
	nriPods = describe("xlb_nri_pods_total",
		"Pods that the container runtime has reported before a container of theirs ran (begun), those that it did not wait for until they were served (late), those that were not taken in, since they are too many or have names that Kubernetes does not allow (left_out), and events that found no room, behind which the runtime reports all pods anew (lost).", "event")
	nriFailures = describe("xlb_nri_failures_total",
		"Connections to the container runtime that ended, or could not be made.")
)

// listed are the workloads that have series, in the order of their numbers.
func listed(all []Workload) (some []Workload, unlisted int) {
	some = slices.SortedFunc(slices.Values(all), func(a, b Workload) int { return cmp.Compare(a.ID, b.ID) })
	some = some[:min(len(some), maxListedWorkloads)]
	return some, len(all) - len(some)
}

func (out emitter) workloads(all []Workload) {
	some, unlisted := listed(all)
	for i := range some {
		w := &some[i]
		id, text := strconv.FormatUint(uint64(w.ID), 10), labelText
		out.gauge(workloadInfo, 1, id, strconv.FormatUint(w.Netns, 10), w.State, text(w.View), text(w.PodNamespace), text(w.Pod), text(w.PodUID), text(w.Container), text(w.Runtime))
		out.gauge(workloadConnections, w.Connections, id, text(w.Name))
		out.uses(w)
		out.destinations(w)
	}
	out.gauge(workloadsUnlisted, uint64(unlisted))
}

func (out emitter) destinations(w *Workload) {
	id, name := strconv.FormatUint(uint64(w.ID), 10), labelText(w.Name)
	for i := range w.Destinations {
		d := &w.Destinations[i]
		cluster := labelText(d.Cluster)
		out.counter(workloadRequests, d.Requests, id, name, cluster)
		out.counter(workloadRequestBytes, d.RequestBytes, id, name, cluster)
		out.counter(workloadResponseBytes, d.ResponseBytes, id, name, cluster)
		out.seconds(workloadSlowWorkSeconds, d.SlowWorkSeconds, id, name, cluster)
		out.seconds(workloadProgramSeconds, d.ProgramSeconds, id, name, cluster)
	}
}

// nri writes those of the runtime; nil: the daemon has no client of one.
func (out emitter) nri(n *NRI) {
	if n == nil {
		return
	}
	out.gauge(nriConnected, number(n.Connected))
	out.counter(nriPods, n.Pods, "begun")
	out.counter(nriPods, n.Late, "late")
	out.counter(nriPods, n.LeftOut, "left_out")
	out.counter(nriPods, n.Lost, "lost")
	out.counter(nriFailures, n.Failed)
}

func (l *list) addNRI(n *NRI) {
	if n == nil {
		return
	}
	l.add("xlb.nri.connected", number(n.Connected))
	l.add("xlb.nri.pods.begun", n.Pods)
	l.add("xlb.nri.pods.late", n.Late)
	l.add("xlb.nri.pods.left_out", n.LeftOut)
	l.add("xlb.nri.pods.lost", n.Lost)
	l.add("xlb.nri.failures", n.Failed)
}

// labelText is a text of another's choice as a label's value, which must be UTF-8: at one that is not Prometheus' client panics, and what comes behind it is missing.
func labelText(text string) string { return strings.ToValidUTF8(text, string(utf8.RuneError)) }

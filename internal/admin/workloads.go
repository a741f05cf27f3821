// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// Paths of the pages about workloads. The last two change something.
const (
	WorkloadsPath       = "/xlb/workloads"
	ReleaseWorkloadPath = WorkloadsPath + "/release"
	JoinWorkloadPath    = WorkloadsPath + "/join"
)

// NetnsParameter names the network namespace that is released or joined, by its inode number.
const NetnsParameter = "netns"

// States of a workload.
const (
	// WorkloadServed: its new connections are balanced.
	WorkloadServed = "served"
	// WorkloadLeaving: it was released, and connections are open still.
	WorkloadLeaving = "leaving"
	// WorkloadReleased: it was released, and nothing of the daemon is in it.
	WorkloadReleased = "released"
	// WorkloadExcluded: likewise, as the labels of its pod ask, or --pods=labelled does.
	WorkloadExcluded = "excluded"
)

// Workload is a row of /xlb/workloads: a network namespace whose processes are balanced, were until it was released, or are not to be. Names come from
// container runtimes: nothing is promised about their characters.
type Workload struct {
	// ID is the daemon's number of it, 0 for the daemon's own namespace.
	ID uint32 `json:"id"`
	// Name is by what people know it: "host" for the daemon's own, NAMESPACE/NAME of its pod, and where that is not known another name, or number.
	Name string `json:"name,omitempty"`
	// Netns is the inode number of the namespace, as lsns and /proc/PID/ns/net show it, Cookie that of SO_NETNS_COOKIE.
	Netns  uint64 `json:"netns"`
	Cookie uint64 `json:"cookie"`
	// PID is a process in it, Path a file that the namespace is mounted at. Empty: not known.
	PID  int    `json:"pid,omitempty"`
	Path string `json:"path,omitempty"`
	// Runtime is the container runtime, Container its ID of the container; PodUID, PodNamespace and Pod are Kubernetes' of the pod. Empty: not known, or none.
	Runtime      string `json:"runtime,omitempty"`
	Container    string `json:"container,omitempty"`
	PodUID       string `json:"pod_uid,omitempty"`
	PodNamespace string `json:"pod_namespace,omitempty"`
	Pod          string `json:"pod,omitempty"`
	// State is one of the States of a workload, Why says why it is excluded, or leaving since it is to be.
	State string `json:"state"`
	Why   string `json:"why,omitempty"`
	// View is the name of what its new connections see, or had seen before it was left alone; empty: the shared configuration.
	View string `json:"view,omitempty"`
	// Connections are those of its clients that are intercepted and open.
	Connections uint64 `json:"connections"`
	// Requests of its clients since it is served that have begun on the fast path, or ended in user space, whatever their answer was; and their bytes, heads and
	// bodies, and what follows in tunnels.
	Requests      uint64 `json:"requests"`
	RequestBytes  uint64 `json:"request_bytes"`
	ResponseBytes uint64 `json:"response_bytes"`
	// SlowWorkSeconds is how long the daemon has worked for them in user space, by the clock, and ProgramSeconds how long programs in the kernel have run for them,
	// estimated from one run in 64.
	SlowWorkSeconds float64 `json:"slow_work_seconds"`
	ProgramSeconds  float64 `json:"program_seconds"`
	// Destinations are the same by cluster.
	Destinations []Destination `json:"destinations,omitempty"`
	// Account is by which it is counted: workloads that one pod or container has made have one, the number of the first of them, and Uses are those of all.
	Account uint32 `json:"account"`
	// Uses are what the account has of each table that the workloads share, by Quota.Of.
	Uses map[string]QuotaUse `json:"uses,omitempty"`
}

// Destination is what was carried for a workload to a cluster.
type Destination struct {
	// Cluster is empty for requests that came to no cluster, and for those of all clusters together that there was no entry for (QuotaDestinations).
	Cluster         string  `json:"cluster"`
	Requests        uint64  `json:"requests"`
	RequestBytes    uint64  `json:"request_bytes"`
	ResponseBytes   uint64  `json:"response_bytes"`
	SlowWorkSeconds float64 `json:"slow_work_seconds"`
	ProgramSeconds  float64 `json:"program_seconds"`
}

// Errors of Source.ReleaseWorkload and Source.JoinWorkload that lie in the request.
var (
	// ErrUnknownWorkload: the network namespace has no process that could be balanced.
	ErrUnknownWorkload = errors.New("no process of a balanced cgroup is in it")
	// ErrOwnWorkload: it is that of the daemon.
	ErrOwnWorkload = errors.New("it is the daemon's own")
)

// remedyOf says what to do where a network namespace could not be released or joined.
func remedyOf(err error) string {
	switch {
	case errors.Is(err, ErrOwnWorkload):
		return "start the daemon with --namespaces=others to leave it alone, or with --namespaces=all to have it balanced"
	case errors.Is(err, ErrUnknownWorkload):
		return `"xlb get workloads" lists those that the daemon knows, none but its own with --namespaces=own; "lsns -t net" lists all`
	}
	return `"xlb get workloads" says what holds now, and the daemon's log may say more; correct the cause, and try again`
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, ErrOwnWorkload):
		return http.StatusBadRequest
	case errors.Is(err, ErrUnknownWorkload):
		return http.StatusNotFound
	}
	return http.StatusInternalServerError
}

// workload serves a page that changes one. The Set of workloads does one thing at a time, and may look at all processes first: so each answer is made once for
// all requests that ask for it meanwhile, and apart from the other pages, which do not wait for it.
func (a *api) workload(change func(netns uint64) (Workload, error)) http.HandlerFunc {
	return asked(func(w http.ResponseWriter, r *http.Request) {
		netns, err := netnsAsked(r.URL.Query(), r.URL.Path)
		if err != nil {
			writeText(w, http.StatusBadRequest, err.Error()+"\n")
			return
		}
		a.workloads.of(func(w http.ResponseWriter, _ *http.Request) { answerWorkload(w, netns, change) })(w, r)
	}, parameter{name: NetnsParameter})
}

func answerWorkload(w http.ResponseWriter, netns uint64, change func(uint64) (Workload, error)) {
	row, err := change(netns)
	if err != nil {
		writeText(w, statusOf(err), fmt.Sprintf("network namespace %d: %v; %s\n", netns, err, remedyOf(err)))
		return
	}
	writeJSON(w, row)
}

// netnsAsked is the inode number that a query names.
func netnsAsked(query url.Values, path string) (uint64, error) {
	text := query.Get(NetnsParameter)
	if text == "" {
		return 0, fmt.Errorf("parameter %q: missing; name a network namespace by its inode number, as in %s?%s=4026531840", NetnsParameter, path, NetnsParameter)
	}
	netns, err := strconv.ParseUint(text, 10, 64)
	if err != nil || netns == 0 {
		return 0, fmt.Errorf("parameter %q: %.40q is not an inode number; want that of a network namespace, as readlink /proc/PID/ns/net shows it", NetnsParameter, text)
	}
	return netns, nil
}

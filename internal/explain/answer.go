// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"net/netip"

	"github.com/xlb-project/xlb/internal/model"
)

// Answer is the account of one request. Its field names in JSON are stable.
type Answer struct {
	Request Request `json:"request"`
	// Workload is null where the query names none.
	Workload *Workload `json:"workload,omitempty"`
	// View is the name of the view that has the listener; empty: the shared one has.
	View     string   `json:"view,omitempty"`
	Listener Listener `json:"listener"`
	// VirtualHost is null when no domain matches.
	VirtualHost *VirtualHost `json:"virtual_host"`
	// Routes of the virtual host in order, up to the one that won.
	Routes []Route `json:"routes"`
	// Winner is the position of the route that won, 0 when none did: 404.
	Winner int `json:"winner"`
	// Action of the winner, or what a request is answered without a route: one that is refused, or whose path must not go on (merge_slashes and
	// its kin); null otherwise.
	Action *Action `json:"action"`
	// Endpoints that the action may send to.
	Endpoints []Endpoint `json:"endpoints"`
	Kernel    Kernel     `json:"kernel"`
	// Notes say what another request of the same kind may meet.
	Notes []string `json:"notes"`
	// Disagreement says how the kernel's decision contradicts the routes; empty, unless XLB is broken.
	Disagreement string `json:"disagreement,omitempty"`
	// leftOut and secured become a part of Notes.
	leftOut []string
	secured string
	// view has the listener.
	view model.View
}

// IsAnswered reports whether the request is answered before a route is looked for.
func (a *Answer) IsAnswered() bool { return a.Winner == 0 && a.Action != nil }

// Request is what routing looked at.
type Request struct {
	Method string `json:"method"`
	// Authority after what the connection manager cuts off.
	Authority string `json:"authority"`
	// Path after what the connection manager changes.
	Path string `json:"path"`
	// Sent is the path of the client; empty where that is Path.
	Sent   string `json:"sent_path,omitempty"`
	Scheme string `json:"scheme"`
	Draw   uint32 `json:"draw"`
}

// Listener is where the request comes in.
type Listener struct {
	Name    string         `json:"name"`
	Address netip.AddrPort `json:"address"`
}

// VirtualHost is the one that serves the authority, and the domain that says so.
type VirtualHost struct {
	Name   string `json:"name"`
	Domain string `json:"domain"`
}

// Route is a route that was considered.
type Route struct {
	// Position among the routes of the virtual host, from 1.
	Position int    `json:"position"`
	Name     string `json:"name,omitempty"`
	Match    string `json:"match"`
	// Conditions besides the path.
	Conditions []string `json:"conditions"`
	// Lost is the kind of the first condition that does not hold: path, fraction, grpc, header, query or cookie; empty
	// for the winner.
	Lost string `json:"lost,omitempty"`
	// Because says which condition it is, and what the request has instead.
	Because string `json:"because,omitempty"`
	// Undecided says why the kernel hands over what comes as far as this route. It is known of the first hundred routes
	// that the path may reach.
	Undecided string `json:"undecided,omitempty"`
}

// Kinds of actions.
const (
	Forward        = "forward"
	Redirect       = "redirect"
	DirectResponse = "direct_response"
	Refused        = "refused"
)

// Action is what the winner does.
type Action struct {
	// Kind is "forward", "redirect", "direct_response" or "refused".
	Kind string `json:"kind"`
	// Status of a redirect, direct response or refusal.
	Status int `json:"status,omitempty"`
	// Because says why a request is refused.
	Because string `json:"because,omitempty"`
	// Clusters to forward to.
	Clusters []Cluster `json:"clusters,omitempty"`
	// NotFound is the status of the answer where a header names no cluster.
	NotFound int `json:"cluster_not_found_response_code,omitempty"`
	// Timeout in Go's notation, "0s" for none.
	Timeout string `json:"timeout,omitempty"`
	// Changes that are made to the request, or that a redirect makes to the URL, each in Envoy's words.
	Changes []string `json:"changes,omitempty"`
	// Path, with its query, that the endpoint gets; empty where that is the request's.
	Path string `json:"rewritten_path,omitempty"`
	// Filters that may answer the request, or hold it up, before.
	Filters []string `json:"filters,omitempty"`
	// Upgrades that the route allows.
	Upgrades []string `json:"upgrades,omitempty"`
}

// Cluster is one that the winner sends to.
type Cluster struct {
	// Name is empty where Header does not hold that of a cluster.
	Name string `json:"name"`
	// Header chooses the cluster (cluster_header).
	Header string `json:"header,omitempty"`
	Weight uint32 `json:"weight"`
	Policy string `json:"policy"`
	// Subset of it; null where it has none.
	Subset *Subset `json:"subset,omitempty"`
}

// States of endpoints.
const (
	Healthy = "healthy"
	Down    = "down"
)

// Endpoint is one of a cluster.
type Endpoint struct {
	Cluster string `json:"cluster"`
	// Criteria of the route, where they choose among the cluster's endpoints.
	Criteria model.Metadata `json:"criteria,omitempty"`
	// Address is that of the configuration, host:port, when no daemon was asked.
	Address string `json:"address"`
	Weight  uint32 `json:"weight"`
	// TLS secures connections to it: the slow path sends its requests.
	TLS bool `json:"tls,omitempty"`
	// Inner: it is the address of a listener of the configuration, which the slow path enters.
	Inner bool `json:"inner,omitempty"`
	// State is "healthy", "down" or another state that metrics.EndpointSnapshot shows; empty when no daemon was asked.
	State string `json:"state,omitempty"`
	// Share is the part of the cluster's requests, 0 to 1, that is its own; 0 too when no daemon was asked, or with Criteria.
	Share float64 `json:"share,omitempty"`
	// Idle i-socks; null when no daemon was asked, or its fast path is off.
	Idle *uint64 `json:"idle,omitempty"`
}

// Who decided for the kernel.
const (
	// ByKernel: the loaded program over the loaded maps.
	ByKernel = "kernel"
	// ByCompiler: the compiled table, without a kernel; it does not look at how the request is framed.
	ByCompiler = "compiler"
	// ByNobody: the fast path is off.
	ByNobody = "nobody"
)

// Kernel is what the fast path decides.
type Kernel struct {
	By string `json:"by"`
	// Fast: the kernel takes the request; otherwise the slow path serves it.
	Fast bool `json:"fast"`
	// Verdict by name, "ok" for the fast path; empty when the fast path is off. Meaning is that of docs/verdicts.md.
	Verdict string `json:"verdict,omitempty"`
	Meaning string `json:"meaning,omitempty"`
	// Cluster that was drawn, of a request that is taken or handed over for TLS, and Timeout, of one that is taken.
	Cluster string `json:"cluster,omitempty"`
	// Criteria name the subset of the cluster.
	Criteria model.Metadata `json:"criteria,omitempty"`
	Timeout  string         `json:"timeout,omitempty"`
	// Reasons for a hand-over by the routes or the whole table, as the compiler gives them.
	Reasons []string `json:"reasons,omitempty"`
}

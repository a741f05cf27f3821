// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// Resource is one named resource as the server sent it.
type Resource struct {
	Name    string
	Version string
	// Body is never changed, and stays the same object while its bytes do.
	Body *anypb.Any
}

// Snapshot holds what is warm, by name. It is never changed after it was handed out, and must not be changed. A map that
// holds the same as in the snapshot before is the same map.
type Snapshot struct {
	// Assignments and Routes hold what Clusters and Listeners refer to, as far as the server has it.
	Clusters, Assignments, Listeners, Routes map[string]Resource
	// Changed are the names, by Kind, of what differs from the snapshot that was handed out before.
	Changed [kinds][]string
}

// Server is a management server.
type Server struct {
	// Address is host:port, or unix: and a path.
	Address string
	// TLS is nil for a connection in plain text.
	TLS *tls.Config
	// Authority is the :authority of requests; empty: the address. TLS.ServerName, or else the authority, is what a certificate is checked for.
	Authority string
	// Metadata are headers of the stream (Envoy: grpc_service.initial_metadata).
	Metadata map[string]string
	// KeepAlive is the time without traffic after which the server is asked for a sign of life by HTTP/2's PING, and KeepAliveTimeout how
	// long that may take (Envoy: connection_keepalive.interval, timeout). 0: no PING, as in Envoy; gRPC raises shorter intervals to 10 s.
	KeepAlive, KeepAliveTimeout time.Duration
}

// ErrUnfinished is what Config.Update returns where it was cut off, as by the end of the process: the state is neither in force nor refused.
var ErrUnfinished = errors.New("the update was cut off")

// Config says whom to ask for what, and who wants to know.
type Config struct {
	// Node is who asks (Envoy: bootstrap.node).
	Node *corev3.Node
	// Servers are tried in their order.
	Servers []Server
	// Delta chooses the incremental protocol (Envoy: api_type DELTA_GRPC).
	Delta bool
	// Roots are the kinds that are asked for as a whole: Clusters, Listeners. Envoy asks for those that have a cds_config or lds_config. None is
	// both, unless there are Names.
	Roots []Kind
	// Names are assignments and route configurations that are asked for in any case: static clusters and listeners refer to them.
	Names map[Kind][]string
	// Check refuses a resource with a reason, and names what it refers to: a cluster its assignment (the EDS service name), a listener
	// its route configurations. It has to be pure: a body that has been judged is not judged again while it stays the same.
	// It is called for one resource at a time.
	Check func(kind Kind, name string, body *anypb.Any) (references []string, err error)
	// Ready says whether a cluster has all that it needs besides its assignment, such as secrets; nil: each has. One that has not warms until a call
	// of Client.Again finds that it has. A nil body says that there is no cluster of that name any more. It must neither wait nor call the client.
	Ready func(name string, body *anypb.Any) bool
	// Update is called with each warm state that differs from the one before, one call at a time. An error is logged and counted; the
	// state before then stays in force, until the next. ErrUnfinished is neither. States that come while Update runs are merged: it is called again with
	// the newest.
	Update func(Snapshot) error
	// FetchTimeout is how long a resource that something refers to may be missing before it counts as absent (Envoy: initial_fetch_timeout,
	// 15 s where the field is not set). 0 is for ever, as in Envoy.
	FetchTimeout time.Duration
	// Pace is what several clients have in common; nil: the client has one of its own.
	Pace *Pace
	// Logger is where events go; nil: nowhere.
	Logger *slog.Logger
}

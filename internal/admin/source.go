// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"log/slog"
	"net/netip"
	"time"

	"github.com/xlb-project/xlb/internal/explain"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/model"
)

// Source is what the admin API shows. Its methods are called once per request,
// concurrently with everything else.
type Source interface {
	// Ready returns nil once every listener is intercepted and its pools are open, and
	// otherwise the reason why requests cannot be served yet or no more.
	Ready() error
	// Config returns the configuration in force.
	Config() Config
	// Snapshot returns what was counted so far.
	Snapshot() (*metrics.Snapshot, error)
	// Intercepted reports whether connections to a service address are intercepted now,
	// as the kernel's map says.
	Intercepted(l *model.Listener) (bool, error)
	// Guarded lists what the daemon has taken off the fast path by itself, the largest first.
	Guarded() []Guarded
	// Capabilities lists those of the process, and those that it lacks. The error says why the process may have others, too.
	Capabilities() ([]Capability, error)
	// Delegate is the Envoy beside the daemon; empty: there is no delegate.
	Delegate() []Delegate
	// Origins lists where the configuration comes from, and what was refused of it.
	Origins() []Origin
	// Notes are about what was accepted and is not done.
	Notes() []Note
	// Bound says of a bound listener whether its socket takes connections: "yes", or why not. It is empty for others.
	Bound(l *model.Listener) string
	// Connections returns open client connections, at most limit of them.
	Connections(limit int) ([]Connection, error)
	// Workloads lists the network namespaces whose processes are balanced, were until they were released, or are not to be: the daemon's own first.
	Workloads() []Workload
	// Quotas lists the tables that the workloads share.
	Quotas() []Quota
	// ReleaseWorkload has the new connections of a network namespace, by its inode number, go where they go without a balancer; JoinWorkload takes it back.
	// Both return what holds afterwards, and change nothing where it holds already. The error may be, or wrap, ErrUnknownWorkload or ErrOwnWorkload.
	ReleaseWorkload(netns uint64) (Workload, error)
	JoinWorkload(netns uint64) (Workload, error)
	// LogLevel is the level of the log; SetLogLevel makes it another one.
	LogLevel() slog.Level
	SetLogLevel(level slog.Level)
	// Explain gives an account of one request, made up by the query. What is wrong with that is an *explain.QueryError.
	Explain(q *explain.Query) (*explain.Answer, error)
}

// Note is a row of /xlb/notes: a field that was accepted although XLB does not do what it says.
type Note struct {
	// View is the name of the view that has it; empty: the shared one has.
	View string `json:"view,omitempty"`
	// Resource is "listener NAME" and the like; empty: the bootstrap.
	Resource string `json:"resource"`
	Path     string `json:"path"`
	Reason   string `json:"reason"`
}

// Config is a configuration and where it comes from.
type Config struct {
	// Model is never nil.
	Model *model.Config
	// Version tells this configuration from the ones before.
	Version string
	// Updated is when it took effect.
	Updated time.Time
	// Dynamic lists the resources that are not in the bootstrap; nil: everything is.
	Dynamic func() *Dynamic
	// Bootstrap is envoy.config.bootstrap.v3.Bootstrap without static resources, nil: nothing of it is known. Control is the control plane's
	// cluster with its @type, nil where there is none. Both in JSON.
	Bootstrap, Control json.RawMessage
	// Secrets are those that connections to endpoints are secured with.
	Secrets []Secret
	// Views are the names of the views beside the shared one, sorted. Model has all of them; Dynamic, Bootstrap, Control and Secrets are the shared one's.
	Views []string
	// DescribeView adds those of another one, of which nothing is set before; nil: nothing is known of them.
	DescribeView func(view string, c *Config)
	// view is the one that a page shows.
	view string
}

// of is what a page shows of one view; empty: of the shared one.
func (c Config) of(view string) Config {
	if view == "" {
		return c
	}
	c.Dynamic, c.Bootstrap, c.Control, c.Secrets, c.view = nil, nil, nil, nil, view
	if c.DescribeView != nil {
		c.DescribeView(view, &c)
	}
	return c
}

// Secret is one of them, without its content.
type Secret struct {
	Name, Version string
	// Updated is zero while it has not come. Fault is why what came last was refused, at FaultAt.
	Updated time.Time
	Fault   string
	FaultAt time.Time
}

// Connection is an intercepted client connection.
type Connection struct {
	// Client is the client's own address, Service the one it connected to.
	Client netip.AddrPort `json:"client"`
	// WorkloadID is the number of the client's network namespace, and Workload its name, as in /xlb/workloads; null and "" for a client elsewhere.
	WorkloadID *uint32 `json:"workload_id,omitempty"`
	Workload   string  `json:"workload,omitempty"`

	Service netip.AddrPort `json:"service"`
	// Listener is its name, "" when it has left the configuration.
	Listener string `json:"listener"`
	// View is that of the listener; empty: the shared one.
	View string `json:"view,omitempty"`
	// Path is "fast" or "slow": who serves its next request.
	Path string `json:"path"`
	// Reason says why it is on the slow path, as in xlb_handovers_total.
	Reason string `json:"reason,omitempty"`
	// Opened is when it was accepted.
	Opened time.Time `json:"opened"`
}

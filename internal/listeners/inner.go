// SPDX-License-Identifier: Apache-2.0

package listeners

import (
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/logging"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/topology"
	"github.com/xlb-project/xlb/internal/slowpath"
)

// Inner finds the endpoints that are the address of a listener of the same configuration, wherever they come from: the file, a control plane, DNS.
// The slow path enters those listeners: no socket listens at a service address, and this process is not intercepted.
type Inner struct {
	log *slog.Logger
	// inner are the listeners of the last configuration, clusters its clusters, marked those with such endpoints, by what they were made of. Mark alone
	// uses them.
	inner    *topology.Inner
	marked   map[*model.Cluster]*model.Cluster
	clusters []*model.Cluster
	// cut are the marked clusters of which some endpoints lead in a circle.
	cut map[*model.Cluster]cutting

	mu sync.Mutex
	// loggedAt is when the log had the last line about a circle, by where the last of them was to go.
	loggedAt map[circle]time.Time
}

// circle is where a request was to go that had passed too many listeners.
type circle struct {
	cluster  model.ClusterKey
	endpoint netip.AddrPort
}

// NewInner knows no listener.
func NewInner(log *slog.Logger) *Inner {
	return &Inner{log: log, inner: topology.InnerOf(nil), marked: map[*model.Cluster]*model.Cluster{}, loggedAt: map[circle]time.Time{}}
}

// Mark marks endpoints, and takes those away that lead in a circle. It changes a copy; what is the same as before is the same pointer. One call at a
// time.
func (h *Inner) Mark(cfg *model.Config) *model.Config {
	h.setListeners(cfg.Listeners)
	known := h.marked
	h.marked = map[*model.Cluster]*model.Cluster{}
	changed := model.ChangeOf(h.clusters, cfg.Clusters)
	first, behind := changed.First, changed.First+len(changed.Added)
	h.clusters = cfg.Clusters
	marked := *cfg
	marked.Clusters = nil
	for i, c := range cfg.Clusters {
		with := known[c]
		if with == nil && first <= i && i < behind {
			with = h.inner.Mark(c)
		}
		if with == nil || with == c {
			continue
		}
		if marked.Clusters == nil {
			marked.Clusters = slices.Clone(cfg.Clusters)
		}
		h.marked[c], marked.Clusters[i] = with, with
	}
	if marked.Clusters == nil {
		h.cut = nil
		return cfg
	}
	h.cutCircles(&marked)
	return &marked
}

// cutting is a cluster without the endpoints that lead in a circle.
type cutting struct {
	left []model.LeftOut
	out  *model.Cluster
}

// cutCircles takes endpoints away that lead in a circle, whatever the request: they came with other resources than the listeners, or the file would
// have been refused. cfg is a copy of which the clusters may be exchanged.
func (h *Inner) cutCircles(cfg *model.Config) {
	left := map[*model.Cluster][]model.LeftOut{}
	for _, edge := range h.inner.Circles(cfg) {
		one := model.LeftOut{Host: edge.Endpoint.Addr().String(), Port: edge.Endpoint.Port(), Reason: model.LeftOutCircle, Socket: edge.To.Name}
		if !slices.Contains(left[edge.Cluster], one) {
			left[edge.Cluster] = append(left[edge.Cluster], one)
		}
	}
	now := map[*model.Cluster]cutting{}
	for i, c := range cfg.Clusters {
		if left[c] == nil {
			continue
		}
		k := h.cut[c]
		if !slices.Equal(k.left, left[c]) {
			k = cutting{left[c], cutOf(c, left[c])}
			h.log.Warn("endpoints get no requests", "cluster", c.Name, "view", logging.NonZero(c.View.Name), "reason", k.out.LeftOutText())
		}
		now[c], cfg.Clusters[i] = k, k.out
	}
	h.cut = now
}

// cutOf makes a cluster without some endpoints.
func cutOf(c *model.Cluster, left []model.LeftOut) *model.Cluster {
	out := *c
	out.LeftOut = append(slices.Clone(c.LeftOut), left...)
	out.Endpoints = slices.DeleteFunc(slices.Clone(c.Endpoints), func(e model.Endpoint) bool {
		return slices.ContainsFunc(left, func(l model.LeftOut) bool { return l.Host == e.Address.Addr().String() && l.Port == e.Address.Port() })
	})
	return &out
}

// setListeners has all clusters looked at again where listeners have come or gone.
func (h *Inner) setListeners(listeners []*model.Listener) {
	inner := topology.InnerOf(listeners)
	if !inner.Same(h.inner) {
		h.marked, h.clusters = nil, nil
	}
	h.inner = inner
}

const (
	// circlePace is between two lines of the log about one circle; maxCircles bounds those that it is known of.
	circlePace = time.Minute
	maxCircles = 256
)

// Circled logs that a request has passed too many listeners. It implements slowpath.Config.Circled, and is safe for concurrent use.
func (h *Inner) Circled(cluster model.ClusterKey, endpoint netip.AddrPort) {
	if h.mayLog(circle{cluster, endpoint}, time.Now()) {
		h.log.Warn("requests go in a circle; they get 503: have one of these listeners lead elsewhere", "cluster", cluster.Name, "view", logging.NonZero(cluster.View), "endpoint", endpoint,
			"listeners_passed", slowpath.MaxDepth)
	}
}

// mayLog reports whether a line about a circle is due.
func (h *Inner) mayLog(at circle, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	last, known := h.loggedAt[at]
	if now.Sub(last) < circlePace || !known && len(h.loggedAt) == maxCircles {
		return false
	}
	h.loggedAt[at] = now
	return true
}

// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/topology"
)

// Compiled is a configuration that nobody serves: the compiled tables stand for the kernel.
func Compiled(cfg *model.Config) *State {
	inner := topology.InnerOf(cfg.Listeners)
	marked := *cfg
	marked.Clusters = make([]*model.Cluster, len(cfg.Clusters))
	for i, c := range cfg.Clusters {
		marked.Clusters[i] = inner.Mark(c)
	}
	image, notes := compile.Compile(&marked)
	return &State{
		Config: cfg,
		Notes:  notes,
		Decide: func(l *model.Listener, r *matcher.Request, _ []byte) (Decision, error) {
			i := slices.IndexFunc(image.Listeners, func(c compile.Listener) bool { return c.View == l.View && c.Name == l.Name })
			return decideByTable(image.Listeners[i].Table, r), nil
		},
		Endpoints: func(cluster model.ClusterKey) ([]Endpoint, error) { return targets(cfg.Cluster(cluster), inner), nil },
	}
}

// decideByTable does what bpf/lib/router.h does. Of the rest of the head it looks at the method only.
func decideByTable(t *tables.Table, r *matcher.Request) Decision {
	d := Decision{By: ByCompiler}
	if !slices.Contains(plainMethods, r.Method) {
		d.Verdict = maps.HandoverMethod
		if t.Flags&maps.TableSlow != 0 {
			d.Verdict = maps.HandoverTableSlow
		}
		return d
	}
	route, verdict := t.Route(r)
	if d.Verdict = verdict; verdict == maps.VerdictOk {
		var key model.ClusterKey
		key, d.Criteria = t.ClusterOf(route, r.Draw)
		d.Cluster = key.Name
		d.Timeout = max(route.Timeout, 0)
	}
	return d
}

// plainMethods are those of method_is_plain() in bpf/lib/http1.h.
var plainMethods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"}

// targets are the endpoints as they are configured, names not resolved.
func targets(c *model.Cluster, inner *topology.Inner) []Endpoint {
	if c == nil {
		return nil
	}
	list := make([]Endpoint, 0, len(c.Targets))
	for _, t := range c.Targets {
		e := Endpoint{Cluster: c.Name, Address: net.JoinHostPort(t.Host, strconv.Itoa(int(t.Port))), Weight: t.Weight, TLS: t.TLS != nil}
		if ip, err := netip.ParseAddr(t.Host); err == nil {
			e.Inner = c.Discovery != model.OriginalDst && inner.At(c.View, netip.AddrPortFrom(ip, t.Port)) != nil
		}
		list = append(list, e)
	}
	return list
}

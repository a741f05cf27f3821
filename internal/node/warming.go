// SPDX-License-Identifier: Apache-2.0

package node

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/shutdown"
	"github.com/xlb-project/xlb/internal/source/secrets"
	"github.com/xlb-project/xlb/internal/xds"
)

// What waits for its secrets is not in force: see internal/source/secrets.

// newSecrets takes from the bootstrap of the start what does not change.
func (n *Node) newSecrets(b *config.Bootstrap) *secrets.Secrets {
	c := secrets.Config{Node: b.Asker(), Logger: n.log, Spawn: n.goes}
	if from := b.Dynamic; from != nil {
		c.ControlPlane = &secrets.ControlPlane{Servers: func() []xds.Server { return serversOf(from) }, Delta: from.Delta}
	}
	return secrets.New(c)
}

// ---- of files ----

// warming are the clusters of a file that may be in force, by name. Node.updates guards it.
type warming map[string]*anypb.Any

// join is all that there is of dynamic resources, as far as it is warm; what the control plane sends is. Needs n.updates.
func (d *dynamic) join(b *config.Bootstrap) config.Resources {
	all := b.Join(d.served, d.read)
	if b.ClustersInFile() {
		all.Clusters = d.warmClusters(b, all.Clusters)
	}
	return all
}

// warmClusters is what is to be in force of the clusters of a file. Needs n.updates.
func (d *dynamic) warmClusters(b *config.Bootstrap, all map[string]*anypb.Any) map[string]*anypb.Any {
	if d.warming == nil {
		d.warming = warming{}
	}
	for name := range d.cold {
		if all[name] == nil {
			d.n.secrets.Abandon(name)
		}
	}
	maps.DeleteFunc(d.warming, func(name string, _ *anypb.Any) bool { return all[name] == nil })
	d.cold = map[string]bool{}
	for name, body := range all {
		switch {
		case d.warming[name] == body:
		case d.n.secrets.Ready(b, name, body):
			d.warming[name] = body
		default:
			d.cold[name] = true
		}
	}
	return maps.Clone(d.warming)
}

// ---- of the bootstrap ----

// hold is a configuration in which those clusters of the bootstrap stay as they are in force that have changed and wait for their secrets. Of others
// only the warm ones come here. Needs n.updates.
func (n *Node) hold(wanted *model.Config) *model.Config {
	for c := range n.held {
		n.secrets.Abandon(c.Name)
	}
	n.held = nil
	if n.source == nil || n.source == wanted {
		return wanted
	}
	changed := model.ChangeOf(n.source.Clusters, wanted.Clusters)
	before := map[string]*model.Cluster{}
	for _, c := range changed.Removed {
		before[c.Name] = c
	}
	for _, c := range changed.Added {
		if before[c.Name] == nil || len(secrets.WithSecrets(c.Sockets)) == 0 || n.secrets.IsWarm(c.Name, secrets.WithSecrets(c.Sockets)) {
			continue
		}
		if n.held == nil {
			n.held = map[*model.Cluster]*model.Cluster{}
		}
		n.held[c] = before[c.Name]
	}
	if n.held == nil {
		return wanted
	}
	out := *wanted
	out.Clusters = slices.Clone(wanted.Clusters)
	for i, c := range out.Clusters {
		if old := n.held[c]; old != nil {
			out.Clusters[i] = old
		}
	}
	return &out
}

// ---- going on ----

// rewarm puts clusters in force that have become warm.
func (n *Node) rewarm() {
	if n.dynamic != nil && n.dynamic.client != nil {
		n.dynamic.client.Again()
	}
	n.updates.Lock()
	defer n.updates.Unlock()
	var err error
	switch {
	case n.dynamic != nil && len(n.dynamic.cold)+len(n.held) > 0:
		n.dynamic.others = true
		err = n.dynamic.install()
	case len(n.held) > 0:
		err = n.apply(n.wanted)
	}
	if shutdown.IsRefusal(err) {
		n.log.Error("clusters whose secrets have come were not put in force; the configuration before stays", "err", err)
	}
}

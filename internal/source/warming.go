// SPDX-License-Identifier: Apache-2.0

package source

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/shutdown"
	"github.com/xlb-project/xlb/internal/source/secrets"
)

// What waits for its secrets is not in force: see internal/source/secrets.

// ---- of files ----

// join is all that there is of dynamic resources, as far as it is warm; what the control plane sends is. Needs the lock.
func (d *dynamic) join(b *config.Bootstrap) config.Resources {
	all := b.Join(d.served, d.read)
	if b.ClustersInFile() {
		all.Clusters = d.warmClusters(b, all.Clusters)
	}
	return all
}

// warmClusters is what is to be in force of the clusters of a file. Needs the lock.
func (d *dynamic) warmClusters(b *config.Bootstrap, all map[string]*anypb.Any) map[string]*anypb.Any {
	for name := range d.cold {
		if all[name] == nil {
			d.secrets.Abandon(name)
		}
	}
	maps.DeleteFunc(d.warm, func(name string, _ *anypb.Any) bool { return all[name] == nil })
	d.cold = map[string]bool{}
	for name, body := range all {
		switch {
		case d.warm[name] == body:
		case d.secrets.Ready(b, name, body):
			d.warm[name] = body
		default:
			d.cold[name] = true
		}
	}
	return maps.Clone(d.warm)
}

// ---- of the bootstrap ----

// hold is a configuration in which those clusters of the bootstrap stay as they are in force that have changed and wait for their secrets. Of others
// only the warm ones come here. Needs the lock.
func (s *Source) hold(wanted *model.Config) *model.Config {
	for c := range s.warming {
		s.secrets.Abandon(c.Name)
	}
	s.warming = nil
	if s.unresolved == nil || s.unresolved == wanted {
		return wanted
	}
	changed := model.ChangeOf(s.unresolved.Clusters, wanted.Clusters)
	before := map[string]*model.Cluster{}
	for _, c := range changed.Removed {
		before[c.Name] = c
	}
	for _, c := range changed.Added {
		if before[c.Name] == nil || len(secrets.WithSecrets(c.Sockets)) == 0 || s.secrets.IsWarm(c.Name, secrets.WithSecrets(c.Sockets)) {
			continue
		}
		if s.warming == nil {
			s.warming = map[*model.Cluster]*model.Cluster{}
		}
		s.warming[c] = before[c.Name]
	}
	if s.warming == nil {
		return wanted
	}
	out := *wanted
	out.Clusters = slices.Clone(wanted.Clusters)
	for i, c := range out.Clusters {
		if old := s.warming[c]; old != nil {
			out.Clusters[i] = old
		}
	}
	return &out
}

// ---- going on ----

// rewarm puts clusters in force that have become warm.
func (s *Source) rewarm() {
	if s.dynamic != nil && s.dynamic.client != nil {
		s.dynamic.client.Again()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	switch {
	case s.dynamic != nil && len(s.dynamic.cold)+len(s.warming) > 0:
		s.dynamic.others = true
		err = s.dynamic.assembleAndActivate()
	case len(s.warming) > 0:
		err = s.activate(s.desired)
	}
	if shutdown.IsRefusal(err) {
		s.cfg.Logger.Error("clusters whose secrets have come were not put in force; the configuration before stays", "err", err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"reflect"
	"slices"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/internal/source/intake"
)

// activateWithinCapacity is activate for what a control plane, or files of resources, make up: a cluster with more endpoints than there is capacity for
// stays as it is in force, and keeps nothing else from being put in force; what is wrong is added. Needs s.mu.
func (s *Source) activateWithinCapacity(wanted *model.Config, wrong *intake.Refusal) error {
	s.logLeftOut(wanted)
	for {
		err := s.activate(wanted)
		less := s.leaveOut(err, wanted, s.unresolved, wrong)
		if less == nil {
			return err
		}
		wanted = less
	}
}

// leaveOut is a configuration without the cluster that an error says there is no room for, which is logged and added to what is wrong: see withCluster. nil: the
// error is another one, or there is less of that cluster already.
func (s *Source) leaveOut(err error, wanted, before *model.Config, wrong *intake.Refusal) *model.Config {
	full, is := errors.AsType[*reconcile.FullError](err)
	if !is {
		return nil
	}
	less := withCluster(wanted, before, full.Cluster)
	if less == nil {
		// What the view said before was accepted, and is not in force: it waits for other views.
		less = withCluster(wanted, s.activeCluster(full.Cluster), full.Cluster)
	}
	if less == nil {
		return nil
	}
	s.cfg.Logger.Error("endpoints refused; the cluster stays as it was", "cluster", full.Cluster.Name, "endpoints", full.Most, "room", full.Left)
	wrong.Add(full.Cluster.Name, full)
	return less
}

// withCluster is a configuration whose cluster with that key is the one before, or has no endpoints where there was no such cluster; nil: wanted is so already.
func withCluster(wanted, before *model.Config, key model.ClusterKey) *model.Config {
	at := slices.IndexFunc(wanted.Clusters, func(c *model.Cluster) bool { return c.Key() == key })
	if at < 0 {
		return nil
	}
	instead := before.Cluster(key)
	if instead == nil {
		bare := *wanted.Clusters[at]
		bare.Targets, bare.Endpoints = nil, nil
		instead = &bare
	}
	if now := wanted.Clusters[at]; now == instead || len(now.Endpoints) == 0 || reflect.DeepEqual(now.Endpoints, instead.Endpoints) {
		return nil
	}
	out := *wanted
	out.Clusters = slices.Clone(wanted.Clusters)
	out.Clusters[at] = instead
	return &out
}

// activeCluster is a configuration with the cluster that is in force for this view; it is empty where names of the cluster were resolved meanwhile.
func (s *Source) activeCluster(key model.ClusterKey) *model.Config {
	c := s.cfg.Cluster(s.cfg.File.View, key.Name)
	if c == nil || c.Discovery.Named() {
		return &model.Config{}
	}
	own := *c
	own.View, own.Common = s.cfg.File.View, nil
	return &model.Config{Clusters: []*model.Cluster{&own}}
}

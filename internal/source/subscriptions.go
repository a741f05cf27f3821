// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/source/intake"
	"github.com/xlb-project/xlb/internal/xds"
)

// subscriptions are those of one configuration.
type subscriptions struct {
	// clusters of type EDS by name.
	clusters map[string]config.Subscription
	tables   []config.Subscription
}

// subscribe notes the subscriptions of the configuration that has been assembled. Needs the lock.
func (d *dynamic) subscribe(b *config.Bootstrap) {
	next := &subscriptions{clusters: map[string]config.Subscription{}}
	for _, s := range b.Subscriptions() {
		if s.Cluster != "" {
			next.clusters[s.Cluster] = s
		} else {
			next.tables = append(next.tables, s)
		}
	}
	slices.SortFunc(next.tables, func(a, b config.Subscription) int {
		return cmp.Or(strings.Compare(a.Prefix, b.Prefix), strings.Compare(a.Name, b.Name))
	})
	d.subscribed.Store(next)
}

// counts find the statistics of subscriptions.
type counts struct {
	in *intake.Intake
	// served are what the control plane has sent, by kind and name.
	served map[xds.Kind]map[string]xds.Count
}

func (d *dynamic) counts() counts {
	c := counts{in: d.intake, served: map[xds.Kind]map[string]xds.Count{}}
	if d.client != nil {
		for _, k := range []xds.Kind{xds.Assignments, xds.Routes} {
			c.served[k] = d.client.Counts(k)
		}
	}
	return c
}

// of are those of one.
func (c counts) of(s *config.Subscription, kind config.Kind) metrics.Updates {
	if s.File.Path != "" {
		t := c.in.Of(intake.KeyOf(s.File))
		return t.Updates()
	}
	one := c.served[xds.Kind(kind)][s.Name]
	t := intake.Taken{Version: one.Version, At: one.Accepted, Successes: one.Successes, Rejected: one.Rejected}
	return t.Updates()
}

// ofClusters are those of clusters of type EDS by name.
func (d *dynamic) ofClusters() map[string]*metrics.Updates {
	subscribed := d.subscribed.Load()
	if subscribed == nil || len(subscribed.clusters) == 0 {
		return nil
	}
	c, out := d.counts(), make(map[string]*metrics.Updates, len(subscribed.clusters))
	for name, s := range subscribed.clusters {
		u := c.of(&s, config.Assignments)
		out[name] = &u
	}
	return out
}

// ClusterUpdates returns Envoy's statistics of the endpoints of clusters of type EDS, by the cluster's name.
func (s *Source) ClusterUpdates() map[string]*metrics.Updates {
	if s.dynamic == nil {
		return nil
	}
	return s.dynamic.ofClusters()
}

// Subscriptions returns the subscriptions of route tables and of secrets (metrics.Source).
func (s *Source) Subscriptions() (tables, secrets []metrics.Subscription) {
	if d := s.dynamic; d != nil {
		if subscribed := d.subscribed.Load(); subscribed != nil {
			c := d.counts()
			for _, one := range subscribed.tables {
				tables = append(tables, metrics.Subscription{Prefix: one.Prefix, Name: one.Name, Updates: c.of(&one, config.Routes)})
			}
		}
	}
	for _, h := range s.secrets.Store().Held() {
		t := intake.Taken{Version: h.Version, At: h.Updated, Successes: h.Taken, Rejected: h.Refused - h.Unread, Failures: h.Unread}
		secrets = append(secrets, metrics.Subscription{Name: h.Source.Name, Updates: t.Updates()})
	}
	return tables, secrets
}

// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// found is what a request has found in a configuration. It implements Configuration for the rest of the request.
type found struct {
	table   *model.RouteTable // nil: none
	view    model.View
	cluster *model.Cluster
}

var _ Configuration = found{}

// Routes implements Configuration.
func (f found) Routes(string) (*model.RouteTable, bool) { return f.table, f.table != nil }

// Match implements Configuration.
func (found) Match(t *model.RouteTable, r *matcher.Request, _ func() (gone bool)) *model.Route {
	return t.Match(r)
}

// TCP implements Configuration.
func (found) TCP(string) *model.TCPProxy { return nil }

// Inspection implements Configuration.
func (found) Inspection(string) *model.Inspection { return nil }

// HasListener implements Configuration.
func (found) HasListener(string) bool { return true }

// View implements Configuration.
func (f found) View(string) model.View { return f.view }

// Key implements Configuration.
func (f found) Key(v model.View, name string) model.ClusterKey {
	if v == f.view && name == f.cluster.Name {
		return f.cluster.Key()
	}
	return model.NoCluster
}

// Cluster implements Configuration.
func (f found) Cluster(key model.ClusterKey) *model.Cluster {
	if key != f.cluster.Key() {
		return nil
	}
	return f.cluster
}

// SPDX-License-Identifier: Apache-2.0

package routes

import "github.com/xlb-project/xlb/internal/problem"

// Clusters are those that routes and TCP proxies may name.
type Clusters struct {
	// Balanced are the names of clusters that requests may go to, Services those of static clusters that XLB asks itself.
	Balanced, Services map[string]bool
	// Unknown: a resource is checked on its own, and what clusters there are is not known.
	Unknown bool
}

// Missing reports whether no cluster has the name, which is a problem at the path unless lenient says that clusters need not exist. An empty name is one
// in any case, and so is that of a service.
func (c Clusters) Missing(p *problem.List, name, path string, lenient bool) bool {
	switch {
	case name == "":
		p.Add(path, "missing: name a cluster")
	case c.Services[name]:
		p.Add(path, "%q is the control plane's or a server's of secrets, with which XLB speaks HTTP/2 itself; name another", name)
	case c.Unknown || c.Balanced[name]:
		return false
	case lenient:
		return true
	default:
		p.Add(path, "no cluster %q in static_resources.clusters; add it or correct the name", name)
	}
	return false
}

func (t *translator) clusterMissing(name, path string) bool {
	return t.in.Clusters.Missing(t.p, name, path, t.lenient)
}

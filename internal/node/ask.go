// SPDX-License-Identifier: Apache-2.0

package node

import (
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/xds"
)

// newClient makes the client that follows the control plane; nil where there is none to follow.
func (d *dynamic) newClient() *xds.Client {
	from := d.bootstrap.Load().Dynamic
	var roots []xds.Kind
	for _, k := range from.Roots() {
		roots = append(roots, xds.Kind(k))
	}
	names := map[xds.Kind][]string{}
	for _, k := range []config.Kind{config.Assignments, config.Routes} {
		if asked := from.Names(k); len(asked) > 0 {
			names[xds.Kind(k)] = asked
		}
	}
	if len(roots)+len(names) == 0 {
		return nil
	}
	what := d.servers()
	return xds.New(xds.Config{
		Node: from.Node, Servers: serversOf(from), Delta: from.Delta, Roots: roots, Names: names, FetchTimeout: from.FetchTimeout, Logger: d.n.log,
		Check: func(kind xds.Kind, name string, body *anypb.Any) (references []string, err error) {
			return d.check(config.Kind(kind), name, body)
		},
		Update: func(s xds.Snapshot) error { return d.update(s, what) },
	})
}

// serversOf are the servers of the control plane.
func serversOf(from *config.Dynamic) []xds.Server {
	var servers []xds.Server
	for _, s := range from.Servers {
		servers = append(servers, xds.Server{
			Address: s.Address, TLS: s.TLSConfig(), Authority: s.Authority, KeepAlive: s.KeepAlive, KeepAliveTimeout: s.KeepAliveTimeout,
		})
	}
	return servers
}

// update puts in force what the control plane says. What cannot be put in force is tried again with the next change of whatever source.
func (d *dynamic) update(s xds.Snapshot, what string) error {
	d.n.updates.Lock()
	defer d.n.updates.Unlock()
	d.served = config.Resources{
		Clusters: bodiesOf(s.Clusters), Assignments: bodiesOf(s.Assignments), Listeners: bodiesOf(s.Listeners), Routes: bodiesOf(s.Routes),
	}
	if err := d.install(); err != nil {
		return err
	}
	d.arrived(what)
	return nil
}

func bodiesOf(all map[string]xds.Resource) map[string]*anypb.Any {
	out := make(map[string]*anypb.Any, len(all))
	for name, r := range all {
		out[name] = r.Body
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/shutdown"
	"github.com/xlb-project/xlb/internal/xds"
)

// newClient makes the client that follows the control plane; nil where there is no control plane.
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
		Node: from.Node, Servers: serversOf(from), Delta: from.Delta, Roots: roots, Names: names, FetchTimeout: from.FetchTimeout, Pace: d.pace, Logger: d.log,
		Check: func(kind xds.Kind, name string, body *anypb.Any) (references []string, err error) {
			needs, err := d.check(config.Kind(kind), name, body)
			d.files.StartAhead(needs.Files)
			return needs.References, err
		},
		Ready:  func(name string, body *anypb.Any) bool { return d.secrets.Ready(d.bootstrap.Load(), name, body) },
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
	d.files.AwaitAhead()
	d.lock.Lock()
	defer d.lock.Unlock()
	d.take(&s)
	err := d.assembleAndActivate()
	switch {
	case err == nil:
		d.arrived(what)
	case !shutdown.IsRefusal(err):
		return errors.Join(xds.ErrUnfinished, err)
	}
	return err // the client counts and logs it
}

// take notes what has changed in what the control plane says.
func (d *dynamic) take(s *xds.Snapshot) {
	for kind, into := range map[xds.Kind]struct {
		served *map[string]*anypb.Any
		all    map[string]xds.Resource
	}{
		xds.Clusters: {&d.served.Clusters, s.Clusters}, xds.Assignments: {&d.served.Assignments, s.Assignments},
		xds.Listeners: {&d.served.Listeners, s.Listeners}, xds.Routes: {&d.served.Routes, s.Routes},
	} {
		changed := s.Changed[kind]
		if *into.served == nil {
			*into.served = make(map[string]*anypb.Any, len(into.all))
		}
		for _, name := range changed {
			if r, ok := into.all[name]; ok {
				(*into.served)[name] = r.Body
			} else {
				delete(*into.served, name)
			}
		}
		if kind == xds.Assignments {
			d.assignments = append(d.assignments, changed...)
		} else {
			d.others = d.others || len(changed) > 0
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package source

import (
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/xds"
	"github.com/xlb-project/xlb/internal/xds/csds"
)

// bootstrapDump is what is shown of a bootstrap, in JSON.
type bootstrapDump struct{ bootstrap, control json.RawMessage }

func (s *Source) showBootstrap(b *config.Bootstrap) {
	dump := &bootstrapDump{}
	// It has been read from such a text.
	dump.bootstrap, _ = inEnvoysNames.Marshal(b.Dump(s.cfg.Version))
	if c := b.Control(); c != nil {
		if body, err := anypb.New(c); err == nil {
			dump.control = inJSON(body)
		}
	}
	s.bootstrap.Store(dump)
}

// Describe adds to a description of the configuration what the sources know of it: the bootstrap, dynamic resources and secrets.
func (s *Source) Describe(c *admin.Config) {
	if s.dynamic != nil {
		c.Dynamic = s.dynamic.dump
	}
	if dump := s.bootstrap.Load(); dump != nil {
		c.Bootstrap, c.Control = dump.bootstrap, dump.control
	}
	for _, h := range s.secrets.Store().Secrets() {
		c.Secrets = append(c.Secrets, admin.Secret{Name: h.Source.Name, Version: h.Version, Updated: h.Updated, Fault: h.Fault, FaultAt: h.FaultAt})
	}
}

// dump lists the dynamic resources. It is called at any time.
func (d *dynamic) dump() *admin.Dynamic {
	out := &admin.Dynamic{}
	lists := map[xds.Kind]*[]admin.Resource{
		xds.Clusters: &out.Clusters, xds.Assignments: &out.Endpoints, xds.Listeners: &out.Listeners, xds.Routes: &out.Routes,
	}
	for _, r := range d.resources() {
		*lists[r.Kind] = append(*lists[r.Kind], sent(&r.ResourceStatus))
	}
	return out
}

// resources are those of the control plane and of files, but for what the bootstrap has under the same names. It is called at any time.
func (d *dynamic) resources() []csds.Resource {
	var out []csds.Resource
	b := d.bootstrap.Load()
	add := func(kind config.Kind, r *xds.ResourceStatus) {
		if !b.IsStatic(kind, r.Name) {
			r.Body, r.FailedBody = config.Redact(r.Body), config.Redact(r.FailedBody)
			out = append(out, csds.Resource{Kind: xds.Kind(kind), ResourceStatus: *r})
		}
	}
	if d.client != nil {
		status := d.client.Status()
		for kind := range status.Kinds {
			for _, r := range status.Kinds[kind].Resources {
				add(config.Kind(kind), &r)
			}
		}
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	for _, f := range b.Files() {
		for _, r := range d.inFile(f) {
			add(f.Kind, r)
		}
	}
	return out
}

func sent(r *xds.ResourceStatus) admin.Resource {
	return admin.Resource{
		Name: r.Name, Version: r.Version, Body: inJSON(r.Body), Updated: r.LastUpdate, Status: r.State.String(), Warming: r.Warming,
		Refused: r.Error, RefusedVersion: r.FailedVersion, RefusedAt: r.FailedAt, RefusedBody: inJSON(r.FailedBody),
	}
}

var inEnvoysNames = protojson.MarshalOptions{UseProtoNames: true, Resolver: lenientTypes{protoregistry.GlobalTypes}}

// inJSON leaves out what is in messages of unknown types.
func inJSON(body *anypb.Any) json.RawMessage {
	if body == nil {
		return nil
	}
	text, err := inEnvoysNames.Marshal(body)
	if err != nil {
		return nil
	}
	return text
}

// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xlb-project/xlb/internal/config/schema"
	"github.com/xlb-project/xlb/internal/files"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// maxSize bounds a configuration file, in bytes. A bootstrap of 16 MiB holds
// some hundred thousand routes; more than that is not a configuration.
const maxSize = 16 << 20

// Option changes how a file is read.
type Option func(*options)

type options struct {
	schema schema.Options
	// view has the listeners and the clusters.
	view model.View
	// node is what the command line says of node; what is empty is left as it is.
	node NodeName
}

// EnvoyHeaders returns the option that, if it is on, has listeners add headers unasked, and accepts the fields that say which
// (rewrite.EnvoyHeaders). Without it the fields may only ask for none.
func EnvoyHeaders(on bool) Option { return func(o *options) { o.schema.EnvoyHeaders = on } }

// FieldError is one problem of a configuration, its path in Envoy's field names from the root of the bootstrap.
type FieldError = problem.FieldError

// Load reads the Envoy v3 bootstrap at path and translates it. See Parse for
// the errors of its content.
func Load(path string, change ...Option) (*model.Config, error) {
	data, err := ReadText(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w; name a readable Envoy v3 bootstrap", err)
	}
	return Parse(path, data, change...)
}

// ReadText reads a file of a bootstrap or of resources, and no more of it than what is certainly too long.
func ReadText(path string) ([]byte, error) { return files.Begin(path, maxSize+1) }

// Parse translates the static part of an Envoy v3 bootstrap. The name tells whether data is YAML or JSON, as document.Read has it.
//
// The error joins all problems of the file in a stable order, one line each
// and each with name in front; errors.As finds a *FieldError in it.
func Parse(name string, data []byte, change ...Option) (*model.Config, error) {
	_, cfg, err := parse(name, data, change...)
	return cfg, err
}

// NodeName is who the daemon, or a view, is for a control plane (Envoy's core.v3.Node). What is empty the bootstrap says.
type NodeName struct {
	ID, Cluster, Zone string
	// Metadata go before the bootstrap's fields with their names. They are not changed.
	Metadata *structpb.Struct
}

// IsAs reports whether both say the same.
func (n NodeName) IsAs(other NodeName) bool {
	return n.ID == other.ID && n.Cluster == other.Cluster && n.Zone == other.Zone && proto.Equal(n.Metadata, other.Metadata)
}

// AsNode returns the option that makes the daemon, or a view, this node. As in Envoy what it says goes before what the bootstrap says. Two views with one name
// would be one to a control plane.
func AsNode(n NodeName) Option { return func(o *options) { o.node = n } }

// nameNode changes a bootstrap accordingly.
func (o *options) nameNode(in *bootstrapv3.Bootstrap) {
	if o.node == (NodeName{}) {
		return
	}
	if in.GetNode() == nil {
		in.Node = &corev3.Node{}
	}
	if o.node.ID != "" {
		in.Node.Id = o.node.ID
	}
	if o.node.Cluster != "" {
		in.Node.Cluster = o.node.Cluster
	}
	if fields := o.node.Metadata.GetFields(); len(fields) > 0 {
		all := maps.Clone(in.GetNode().GetMetadata().GetFields())
		if all == nil {
			all = map[string]*structpb.Value{}
		}
		maps.Copy(all, fields)
		in.Node.Metadata = &structpb.Struct{Fields: all}
	}
	if o.node.Zone == "" {
		return
	}
	if in.Node.GetLocality() == nil {
		in.Node.Locality = &corev3.Locality{}
	}
	in.Node.Locality.Zone = o.node.Zone
}

// Note is about a field that is accepted although XLB does not do what it says.
type Note = schema.Note

// Notes are those on the bootstrap.
func (b *Bootstrap) Notes() []Note { return b.notes }

// NotesOn are those on a resource that CheckResource has accepted.
func (b *Bootstrap) NotesOn(kind Kind, name string, body *anypb.Any) []Note {
	m := kind.newMessage()
	if kind != Listeners || body.UnmarshalTo(m) != nil {
		return nil // no field of the others is noted
	}
	notes := schema.CheckResource(problem.NewList(), m, b.options.schema)
	for i := range notes {
		notes[i].Resource = "listener " + name
	}
	return notes
}

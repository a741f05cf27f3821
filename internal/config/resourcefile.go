// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/config/document"
	"github.com/xlb-project/xlb/internal/config/schema"
	"github.com/xlb-project/xlb/internal/problem"
)

// Named is a resource with its name.
type Named struct {
	Name string
	Body *anypb.Any
	// Version is the version_info of the file it is in, for those who look: XLB goes by the file itself.
	Version string
}

// UnreadableError says that a file holds no DiscoveryResponse: it cannot be read, or is no YAML, or nothing. Envoy counts that as update_failure, and
// what it does not take of a DiscoveryResponse as update_rejected.
type UnreadableError struct{ Err error }

func (e *UnreadableError) Error() string { return e.Err.Error() }
func (e *UnreadableError) Unwrap() error { return e.Err }

// Unreadable tells it from other errors where this package is not known.
func (e *UnreadableError) Unreadable() {}

// ParseFile reads what is in a file of resources: a DiscoveryResponse in YAML or JSON, as document.Read has it. As in Envoy a file of Assignments or
// Routes holds one resource. A field that Envoy does not know is an error, as in the bootstrap: a file is written by hand.
func ParseFile(f File, data []byte) ([]Named, error) {
	if len(data) > maxSize {
		return nil, &UnreadableError{fmt.Errorf("%s: larger than %d MiB, the limit of a configuration", f.Path, maxSize>>20)}
	}
	p := problem.NewList()
	r := decodeResponse(p, f, data)
	if r == nil {
		return nil, &UnreadableError{p.Err(f.Path)}
	}
	list := decodeResources(p, f.Kind, r)
	if err := p.Err(f.Path); err != nil {
		return nil, err
	}
	if n := len(list); n != 1 && (f.Kind == Assignments || f.Kind == Routes) {
		return nil, fmt.Errorf("%s: has %d resources; a file of this kind has one", f.Path, n)
	}
	return list, nil
}

// response is a DiscoveryResponse. What it says beside the resources is shown, and of no other consequence in a file.
type response struct {
	resources []any
	version   string
}

// decodeResponse is nil, after a problem, where the text is no DiscoveryResponse.
func decodeResponse(p *problem.List, f File, data []byte) *response {
	root := document.Read(p, f.Path, data, document.ExpectResponse)
	if root == nil {
		return nil
	}
	desc := (&discoveryv3.DiscoveryResponse{}).ProtoReflect().Descriptor()
	document.Respell(desc, root)
	r := &response{}
	r.resources, _ = root["resources"].([]any) // respell has made a list of what there is
	r.version, _ = schema.Member(root, "version_info", "versionInfo").(string)
	delete(root, "resources")
	// What it says beside the resources has to be what Envoy takes.
	if schema.ExplainResponse(p, root, false); len(p.All()) > 0 {
		return nil
	}
	return r
}

func decodeResources(p *problem.List, kind Kind, r *response) []Named {
	var list []Named
	seen := map[string]bool{}
	for i, tree := range r.resources {
		path := problem.At("resources", i)
		body := decodeResource(p, kind, tree, path)
		if body == nil {
			continue
		}
		m := kind.newMessage()
		if err := body.UnmarshalTo(m); err != nil {
			p.Add(path, "%s", document.Reason(err))
			continue
		}
		name := nameOf(m)
		if seen[name] {
			p.Add(path, "a second resource %q, which Envoy refuses; keep one", name)
		}
		seen[name] = true
		list = append(list, Named{Name: name, Body: body, Version: r.version})
	}
	return list
}

func decodeResource(p *problem.List, kind Kind, tree any, path string) *anypb.Any {
	object, ok := tree.(map[string]any)
	if !ok {
		p.Add(path, "expected a mapping with the fields of a resource and its @type")
		return nil
	}
	body := &anypb.Any{}
	if err := document.Decode(object, body); err != nil {
		before := len(p.All())
		schema.ExplainResource(p, object, path)
		if len(p.All()) == before {
			p.Add(path, "%s", document.Reason(err))
		}
		return nil
	}
	if !body.MessageIs(kind.newMessage()) {
		p.Add(path, "not supported here: %s; the file is for %s", body.GetTypeUrl(), kind)
		return nil
	}
	return body
}

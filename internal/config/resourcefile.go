// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
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

// ParseFile reads what is in a file of resources: a DiscoveryResponse in YAML, or in JSON if its path ends in ".json". As in Envoy a file of Assignments or
// Routes holds one resource. A field that Envoy does not know is an error, as in the bootstrap: a file is written by hand.
func ParseFile(f File, data []byte) ([]Named, error) {
	if len(data) > maxSize {
		return nil, &UnreadableError{fmt.Errorf("%s: larger than %d MiB, the limit of a configuration", f.Path, maxSize>>20)}
	}
	p := newProblems()
	r := decodeResponse(p, f, data)
	if r == nil {
		return nil, &UnreadableError{p.err(f.Path)}
	}
	list := decodeResources(p, f.Kind, r)
	if err := p.err(f.Path); err != nil {
		return nil, err
	}
	if n := len(list); n != 1 && (f.Kind == Assignments || f.Kind == Routes) {
		return nil, fmt.Errorf("%s: has %d resources; a file of this kind has one", f.Path, n)
	}
	return list, nil
}

// response is a DiscoveryResponse. What it says beside the resources is shown, and of no other consequence in a file.
type response struct {
	Resources []any `json:"resources"`

	Version  any `json:"version_info"`
	VersionC any `json:"versionInfo"`
	Type     any `json:"type_url"`
	TypeC    any `json:"typeUrl"`
	Nonce    any `json:"nonce"`
}

// version is empty where there is none.
func (r *response) version() string {
	for _, v := range []any{r.Version, r.VersionC} {
		if text, ok := v.(string); ok {
			return text
		}
	}
	return ""
}

// decodeResponse is nil, after a problem, where the text is no DiscoveryResponse.
func decodeResponse(p *problems, f File, data []byte) *response {
	if !strings.HasSuffix(f.Path, ".json") {
		if data = yamlToJSON(p, data, aResponse); data == nil {
			return nil
		}
	}
	var r *response
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	decoder.DisallowUnknownFields()
	switch err := decoder.Decode(&r); {
	case err == io.EOF, err == nil && r == nil:
		p.add("", "%s", isEmpty+aResponse)
		return nil
	case err != nil:
		p.add("", "not a DiscoveryResponse, a mapping with resources: %v", err)
		return nil
	case decoder.More():
		p.add("", "more than one JSON value; keep one")
		return nil
	}
	return r
}

func decodeResources(p *problems, kind Kind, r *response) []Named {
	var list []Named
	version := r.version()
	seen := map[string]bool{}
	for i, tree := range r.Resources {
		path := at("resources", i)
		body := decodeResource(p, kind, tree, path)
		if body == nil {
			continue
		}
		m := kind.newMessage()
		if err := body.UnmarshalTo(m); err != nil {
			p.add(path, "%s", reason(err))
			continue
		}
		name := nameOf(m)
		if seen[name] {
			p.add(path, "a second resource %q, which Envoy refuses; keep one", name)
		}
		seen[name] = true
		list = append(list, Named{Name: name, Body: body, Version: version})
	}
	return list
}

func decodeResource(p *problems, kind Kind, tree any, path string) *anypb.Any {
	object, ok := tree.(map[string]any)
	if !ok {
		p.add(path, "expected a mapping with the fields of a resource and its @type")
		return nil
	}
	text, err := json.Marshal(object)
	if err != nil {
		p.add(path, "%v", err)
		return nil
	}
	body := &anypb.Any{}
	if err := protojson.Unmarshal(text, body); err != nil {
		before := len(p.list)
		(&explainer{p: p, table: resourceFields}).any(object, path, false)
		if len(p.list) == before {
			p.add(path, "%s", reason(err))
		}
		return nil
	}
	if !body.MessageIs(kind.newMessage()) {
		p.add(path, "not supported here: %s; the file is for %s", body.GetTypeUrl(), kind)
		return nil
	}
	return body
}

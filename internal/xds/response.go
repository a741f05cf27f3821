// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"errors"
	"fmt"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

const wrapperURL = "type.googleapis.com/envoy.service.discovery.v3.Resource"

// received is one resource of a response.
type received struct {
	name, version string
	// body is nil in a heartbeat, which only prolongs the time to live.
	body *anypb.Any
	ttl  time.Duration // 0: no end
}

// response is what a server sends, in either form of the protocol.
type response struct {
	typeURL, version, nonce string
	resources               []received
	// removed are names that the server no longer has (delta).
	removed []string
	// whole: what a root's kind does not name here no longer exists (state of the world).
	whole bool
	// fault is why the response cannot be read. Nothing of it is taken.
	fault error
}

// heartbeatsOnly says whether the response is not about what exists.
func (r *response) heartbeatsOnly() bool {
	for i := range r.resources {
		if r.resources[i].body != nil {
			return false
		}
	}
	return len(r.resources) > 0
}

// fromWhole reads a response of the state of the world.
func fromWhole(m *discoveryv3.DiscoveryResponse) *response {
	r := &response{typeURL: m.TypeUrl, version: m.VersionInfo, nonce: m.Nonce, whole: true, resources: make([]received, 0, len(m.Resources))}
	for i, body := range m.Resources {
		one, err := unwrap(m, body)
		if err != nil {
			r.fault = fmt.Errorf("resource %d: %w", i, err)
			return r
		}
		r.resources = append(r.resources, one)
	}
	r.fault = r.judge()
	return r
}

// unwrap reads a resource that may be within a discovery.v3.Resource, as those with a time to live are.
func unwrap(m *discoveryv3.DiscoveryResponse, body *anypb.Any) (received, error) {
	if body.GetTypeUrl() != wrapperURL {
		name, err := nameOf(body)
		return received{name: name, version: m.VersionInfo, body: body}, err
	}
	var wrapper discoveryv3.Resource
	if err := proto.Unmarshal(body.Value, &wrapper); err != nil {
		return received{}, fmt.Errorf("read its wrapper: %w", err)
	}
	one := ofResource(&wrapper)
	one.version = m.VersionInfo
	if one.name != "" || one.body == nil {
		return one, nil
	}
	var err error
	one.name, err = nameOf(one.body)
	return one, err
}

// fromDelta reads an incremental response.
func fromDelta(m *discoveryv3.DeltaDiscoveryResponse) *response {
	r := &response{
		typeURL: m.TypeUrl, version: m.SystemVersionInfo, nonce: m.Nonce, removed: m.RemovedResources,
		resources: make([]received, 0, len(m.Resources)),
	}
	for _, one := range m.Resources {
		if one.Resource == nil && len(one.Aliases) > 0 { // the aliases lead to nothing
			r.removed = append(r.removed, one.Name)
			continue
		}
		r.resources = append(r.resources, ofResource(one))
	}
	r.fault = r.judge()
	return r
}

func ofResource(m *discoveryv3.Resource) received {
	return received{name: m.Name, version: m.Version, body: m.Resource, ttl: max(0, m.Ttl.AsDuration())}
}

// judge finds what makes a response as a whole unfit: a body of another type, a resource without a name, a name that comes twice.
func (r *response) judge() error {
	seen := make(map[string]struct{}, len(r.resources)+len(r.removed))
	twice := func(name string) error {
		if _, known := seen[name]; known {
			return fmt.Errorf("resource %q is named more than once", name)
		}
		seen[name] = struct{}{}
		return nil
	}
	for i := range r.resources {
		one := &r.resources[i]
		if one.body != nil && one.body.TypeUrl != r.typeURL {
			return fmt.Errorf("resource %q is of type %q in a response of type %q", one.name, one.body.TypeUrl, r.typeURL)
		}
		if one.name == "" {
			return fmt.Errorf("resource %d has no name", i)
		}
		if err := twice(one.name); err != nil {
			return err
		}
	}
	for _, name := range r.removed {
		if err := twice(name); err != nil {
			return err
		}
	}
	return nil
}

// nameOf reads the name in a body without the rest: it is field 1 of each type that is asked for (name, cluster_name).
func nameOf(body *anypb.Any) (string, error) {
	name, rest := "", body.GetValue()
	for len(rest) > 0 {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return "", fmt.Errorf("read its body: %w", protowire.ParseError(n))
		}
		rest = rest[n:]
		n = protowire.ConsumeFieldValue(number, kind, rest)
		if n < 0 {
			return "", fmt.Errorf("read its body: %w", protowire.ParseError(n))
		}
		if number == 1 {
			value, length := protowire.ConsumeString(rest)
			if kind != protowire.BytesType || length < 0 {
				return "", errors.New("read its body: the name is no string")
			}
			name = value
		}
		rest = rest[n:]
	}
	return name, nil
}

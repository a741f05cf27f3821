// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/json"
	"maps"
	"slices"
)

// Metadata is an object of metadata under envoy.lb, an endpoint's or what a route asks of one, as JSON with sorted keys and
// without spaces: equal ones are one text. Empty is none.
type Metadata string

// NewMetadata is an object of these fields, of which the values are those of encoding/json; without any it is none.
func NewMetadata(fields map[string]any) Metadata {
	if len(fields) == 0 {
		return ""
	}
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err) // of nothing that JSON can say
	}
	return Metadata(text)
}

// Fields are the values by key, each as JSON.
func (m Metadata) Fields() map[string]string {
	raw := map[string]json.RawMessage{}
	if m != "" && json.Unmarshal([]byte(m), &raw) != nil {
		return nil // not of NewMetadata
	}
	fields := make(map[string]string, len(raw))
	for key, value := range raw {
		fields[key] = string(value)
	}
	return fields
}

func metadataOf(fields map[string]string) Metadata {
	raw := make(map[string]any, len(fields))
	for key, value := range fields {
		raw[key] = json.RawMessage(value)
	}
	return NewMetadata(raw)
}

// Merge adds fields, which take the place of those of the same key.
func (m Metadata) Merge(more Metadata) Metadata {
	fields := m.Fields()
	maps.Copy(fields, more.Fields())
	return metadataOf(fields)
}

// has reports whether metadata has these fields; with listAsAny a list matches by any of its values.
func (m Metadata) has(fields Metadata, listAsAny bool) bool {
	s := Subsets{ListAsAny: listAsAny}
	return s.LabelsOf(m).have(fields.Fields())
}

// SubsetFallback says where requests go whose criteria no endpoint meets.
type SubsetFallback uint8

const (
	// NoFallback answers them 503.
	NoFallback SubsetFallback = iota
	// AnyEndpoint takes all endpoints.
	AnyEndpoint
	// DefaultSubset takes those with the metadata of Subsets.Default.
	DefaultSubset
	// ClusterFallback of a selector leaves it to the cluster's.
	ClusterFallback
	// KeysSubset of a selector asks again by some of the keys.
	KeysSubset
)

// Subsets is envoy.config.cluster.v3.Cluster.LbSubsetConfig: requests go to endpoints that have the metadata which their route asks for.
type Subsets struct {
	// Selectors in the order of the configuration.
	Selectors []SubsetSelector
	// Fallback is NoFallback, AnyEndpoint or DefaultSubset.
	Fallback SubsetFallback
	// Default is what DefaultSubset asks for; none takes all endpoints.
	Default Metadata
	// PanicAny takes all endpoints where Fallback finds none to use.
	PanicAny bool
	// ListAsAny lets a list match by any of its values.
	ListAsAny bool
	// LocalityAware weighs localities in subsets too; ScaleLocality does so by the share of a locality's endpoints that are in the subset.
	LocalityAware, ScaleLocality bool
}

// SubsetSelector is envoy.config.cluster.v3.Cluster.LbSubsetConfig.LbSubsetSelector: routes may ask for exactly these keys.
type SubsetSelector struct {
	// Keys, sorted, without repetitions; at least one.
	Keys     []string
	Fallback SubsetFallback
	// FallbackKeys of KeysSubset: some of Keys, sorted, but not all.
	FallbackKeys []string
}

// Labels are the values, as JSON, that each key of an endpoint's metadata matches.
type Labels map[string][]string

// LabelsOf reads an endpoint's metadata.
func (s *Subsets) LabelsOf(m Metadata) Labels {
	labels := Labels{}
	for key, value := range m.Fields() {
		labels[key] = []string{value}
		var list []json.RawMessage
		if !s.ListAsAny || json.Unmarshal([]byte(value), &list) != nil || value == "null" {
			continue
		}
		labels[key] = nil
		for _, item := range list {
			labels[key] = append(labels[key], string(item))
		}
	}
	return labels
}

func (l Labels) have(fields map[string]string) bool {
	for key, value := range fields {
		if !slices.Contains(l[key], value) {
			return false
		}
	}
	return true
}

// PartKind says which of a cluster's endpoints a Part has.
type PartKind uint8

const (
	// PartAny has all.
	PartAny PartKind = iota
	// PartNone has none.
	PartNone
	// PartSubset has those with its Criteria.
	PartSubset
	// PartDefault has those of Subsets.Default.
	PartDefault
)

// Part is what a request is balanced among. The zero value is a whole cluster.
type Part struct {
	Kind     PartKind
	Criteria Metadata
	// Panic takes all endpoints of the cluster where none of the part can be used.
	Panic bool
}

// Of returns the part for requests whose route has these criteria, in a cluster of endpoints with these labels, as Envoy finds it: a subset
// has the very keys of a selector, and counts while it has an endpoint, whatever its health.
func (s *Subsets) Of(criteria Metadata, endpoints []Labels) Part {
	for asked := criteria.Fields(); len(asked) > 0; {
		keys := slices.Sorted(maps.Keys(asked))
		isIn := func(l Labels) bool { return l.have(asked) }
		if s.selects(keys) && slices.ContainsFunc(endpoints, isIn) {
			return Part{Kind: PartSubset, Criteria: metadataOf(asked)}
		}
		selector := s.fallbackOf(keys)
		switch selector.Fallback {
		case NoFallback:
			return Part{Kind: PartNone}
		case AnyEndpoint:
			return Part{Kind: PartAny}
		case DefaultSubset:
			return Part{Kind: PartDefault}
		case ClusterFallback:
			return s.fallback()
		}
		maps.DeleteFunc(asked, func(key, _ string) bool { return !slices.Contains(selector.FallbackKeys, key) })
	}
	return s.fallback()
}

// Has reports whether an endpoint with these labels is in a part.
func (s *Subsets) Has(p Part, l Labels) bool {
	switch p.Kind {
	case PartSubset:
		return l.have(p.Criteria.Fields())
	case PartDefault:
		return l.have(s.Default.Fields())
	default:
		return p.Kind == PartAny
	}
}

func (s *Subsets) selects(keys []string) bool {
	return slices.ContainsFunc(s.Selectors, func(x SubsetSelector) bool { return slices.Equal(x.Keys, keys) })
}

// fallbackOf is the selector that says what becomes of requests with these keys. Envoy keeps selectors in a tree, where the first one that
// comes past a place has the say: if its own keys go on, the cluster's fallback applies.
func (s *Subsets) fallbackOf(keys []string) SubsetSelector {
	for _, x := range s.Selectors {
		if len(x.Keys) < len(keys) || !slices.Equal(x.Keys[:len(keys)], keys) {
			continue
		}
		if len(x.Keys) == len(keys) {
			return x
		}
		break
	}
	return SubsetSelector{Fallback: ClusterFallback}
}

func (s *Subsets) fallback() Part {
	switch s.Fallback {
	case AnyEndpoint:
		return Part{Kind: PartAny}
	case DefaultSubset:
		return Part{Kind: PartDefault, Panic: s.PanicAny}
	default:
		return Part{Kind: PartNone}
	}
}

// SPDX-License-Identifier: Apache-2.0

package model

import "testing"

func TestPartIsWhatSelectorsAndFallbacksSay(t *testing.T) {
	endpoints := []Metadata{`{"stage":"prod","version":1}`, `{"stage":"prod","version":"1"}`, `{"stage":["canary","dev"],"version":2}`, ""}
	keys := func(fallback SubsetFallback, keys ...string) SubsetSelector {
		return SubsetSelector{Keys: keys, Fallback: fallback}
	}
	toStage := SubsetSelector{Keys: []string{"stage", "version"}, Fallback: KeysSubset, FallbackKeys: []string{"stage"}}
	subset := func(criteria Metadata) Part { return Part{Kind: PartSubset, Criteria: criteria} }
	tests := []struct {
		name     string
		subsets  Subsets
		criteria Metadata
		want     Part
	}{
		{"the subset", Subsets{Selectors: []SubsetSelector{keys(NoFallback, "stage")}}, `{"stage":"prod"}`, subset(`{"stage":"prod"}`)},
		{"a number is no string", Subsets{Selectors: []SubsetSelector{keys(AnyEndpoint, "version")}}, `{"version":"2"}`, Part{}},
		{"a list as a whole", Subsets{Selectors: []SubsetSelector{keys(NoFallback, "stage")}}, `{"stage":["canary","dev"]}`, subset(`{"stage":["canary","dev"]}`)},
		{"a value of a list", Subsets{ListAsAny: true, Selectors: []SubsetSelector{keys(NoFallback, "stage")}}, `{"stage":"dev"}`, subset(`{"stage":"dev"}`)},
		{"a list, by a value", Subsets{Selectors: []SubsetSelector{keys(NoFallback, "stage")}}, `{"stage":"dev"}`, Part{Kind: PartNone}},
		{"keys of no selector", Subsets{Fallback: AnyEndpoint, Selectors: []SubsetSelector{keys(NoFallback, "stage")}}, `{"stage":"prod","version":1}`, Part{}},
		{"some keys of a selector", Subsets{Fallback: AnyEndpoint, Selectors: []SubsetSelector{keys(NoFallback, "stage", "version")}}, `{"stage":"prod"}`, Part{}},
		{"the selector's fallback", Subsets{Fallback: AnyEndpoint, Selectors: []SubsetSelector{keys(DefaultSubset, "stage")}}, `{"stage":"x"}`, Part{Kind: PartDefault}},
		{"the cluster's, with panic", Subsets{Fallback: DefaultSubset, PanicAny: true, Selectors: []SubsetSelector{keys(ClusterFallback, "stage")}}, `{"stage":"x"}`,
			Part{Kind: PartDefault, Panic: true}},
		{"no panic without a fallback", Subsets{PanicAny: true, Selectors: []SubsetSelector{keys(ClusterFallback, "stage")}}, "", Part{Kind: PartNone}},
		{"fewer keys", Subsets{Selectors: []SubsetSelector{toStage, keys(NoFallback, "stage")}}, `{"stage":"prod","version":2}`, subset(`{"stage":"prod"}`)},
		{"fewer keys find nothing", Subsets{Fallback: AnyEndpoint, Selectors: []SubsetSelector{keys(NoFallback, "stage"), toStage}}, `{"stage":"x","version":2}`, Part{Kind: PartNone}},
		{"a longer selector comes first", Subsets{Fallback: AnyEndpoint, Selectors: []SubsetSelector{toStage, keys(NoFallback, "stage")}}, `{"stage":"x"}`, Part{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var labels []Labels
			for _, m := range endpoints {
				labels = append(labels, tt.subsets.LabelsOf(m))
			}
			if got := tt.subsets.Of(tt.criteria, labels); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestMetadataMerges(t *testing.T) {
	for _, tt := range []struct{ outer, inner, want Metadata }{
		{"", "", ""},
		{`{"a":1}`, "", `{"a":1}`},
		{"", `{"a":"<b>"}`, NewMetadata(map[string]any{"a": "<b>"})},
		{`{"a":1,"b":[1,{"c":null}]}`, `{"a":true}`, `{"a":true,"b":[1,{"c":null}]}`},
	} {
		if got := tt.outer.Merge(tt.inner); got != tt.want {
			t.Errorf("%s and %s: got %s, want %s", tt.outer, tt.inner, got, tt.want)
		}
	}
}

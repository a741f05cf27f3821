// SPDX-License-Identifier: Apache-2.0

package config

import (
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// What a node is named goes before what the bootstrap says, field by field, and metadata name by name.
func TestAsNodeGoesBeforeTheBootstrap(t *testing.T) {
	metadata, err := structpb.NewStruct(map[string]any{"NAMESPACE": "shop", "LABELS": map[string]any{"app": "web"}})
	if err != nil {
		t.Fatal(err)
	}
	const withX = `{"node": {"id": "a", "cluster": "b", "metadata": {"X": "y"}}}`
	tests := []struct {
		name, bootstrap string
		as              NodeName
		id, cluster     string
		wantMetadata    map[string]any
	}{
		{"nothing", withX, NodeName{}, "a", "b", map[string]any{"X": "y"}},
		{"id", withX, NodeName{ID: "c"}, "c", "b", map[string]any{"X": "y"}},
		{"metadata", `{"node": {"id": "a", "cluster": "b", "metadata": {"X": "y", "NAMESPACE": "z"}}}`, NodeName{Metadata: metadata}, "a", "b",
			map[string]any{"X": "y", "NAMESPACE": "shop", "LABELS": map[string]any{"app": "web"}}},
		{"no node", "{}", NodeName{ID: "c", Cluster: "d", Metadata: metadata}, "c", "d", metadata.AsMap()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := &bootstrapv3.Bootstrap{}
			if err := protojson.Unmarshal([]byte(tt.bootstrap), in); err != nil {
				t.Fatal(err)
			}
			o := options{}
			AsNode(tt.as)(&o)
			o.nameNode(in)
			got := in.GetNode()
			if got.GetId() != tt.id || got.GetCluster() != tt.cluster {
				t.Errorf("it is %s of %s, want %s of %s", got.GetId(), got.GetCluster(), tt.id, tt.cluster)
			}
			if diff := cmp.Diff(tt.wantMetadata, got.GetMetadata().AsMap()); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNodesAreTheSameByWhatTheySay(t *testing.T) {
	of := func(value string) NodeName {
		return NodeName{ID: "a", Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"x": structpb.NewStringValue(value)}}}
	}
	if !of("1").IsAs(of("1")) || of("1").IsAs(of("2")) || of("1").IsAs(NodeName{ID: "a"}) || !(NodeName{}).IsAs(NodeName{}) {
		t.Error("nodes are not compared by what they say")
	}
}

// SPDX-License-Identifier: Apache-2.0

package values

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xlb-project/xlb/internal/model"
)

// LoadBalancer is the key of the metadata that load balancers read (Metadata.filter_metadata).
const LoadBalancer = "envoy.lb"

// Criteria are what a metadata_match asks of endpoints, beside what an outer one does: of one key its own value goes first.
func Criteria(m *corev3.Metadata, outer model.Metadata) model.Metadata {
	return outer.Merge(Metadata(m.GetFilterMetadata()[LoadBalancer]))
}

// Metadata translates the values of one key of filter_metadata; of none it is empty.
func Metadata(s *structpb.Struct) model.Metadata { return model.NewMetadata(s.AsMap()) }

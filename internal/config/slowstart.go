// SPDX-License-Identifier: Apache-2.0

package config

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xlb-project/xlb/internal/model"
)

// defaultMinWeight is Envoy's SlowStartConfig.min_weight_percent, as a part of 1.
const defaultMinWeight = 0.1

// slowStartConfig is what clusters and policies by type say of it, in types of their own.
type slowStartConfig interface {
	GetSlowStartWindow() *durationpb.Duration
	GetAggression() *corev3.RuntimeDouble
	GetMinWeightPercent() *typev3.Percent
}

func (t *translator) slowStart(s slowStartConfig, path string) model.SlowStart {
	out := model.SlowStart{
		Window:     t.duration(s.GetSlowStartWindow(), 0, path+".slow_start_window"),
		Aggression: 1, MinWeight: defaultMinWeight,
	}
	if a := s.GetAggression(); a != nil {
		out.Aggression = a.GetDefaultValue()
		if out.Aggression <= 0 {
			t.p.Add(path+".aggression.default_value", "%v, in place of which Envoy takes 1; write a number above 0", out.Aggression)
		}
	}
	if p := s.GetMinWeightPercent(); p != nil {
		out.MinWeight = p.GetValue() / 100
	}
	if out.Window == 0 {
		return model.SlowStart{}
	}
	return out
}

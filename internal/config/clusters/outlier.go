// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xlb-project/xlb/internal/model"
)

// Envoy's defaults of OutlierDetection.
const (
	defaultOutlierInterval  = 10 * time.Second
	defaultBaseEjectionTime = 30 * time.Second
	defaultMaxEjectionTime  = 300 * time.Second
)

// outlier translates outlier_detection; nil where there is none.
func (t *translator) outlier(in *clusterv3.OutlierDetection, path string) *model.OutlierDetection {
	if in == nil {
		return nil
	}
	out := &model.OutlierDetection{
		Interval:              t.Positive(in.GetInterval(), defaultOutlierInterval, path+".interval"),
		BaseEjectionTime:      t.Positive(in.GetBaseEjectionTime(), defaultBaseEjectionTime, path+".base_ejection_time"),
		MaxEjectionTimeJitter: t.Duration(in.GetMaxEjectionTimeJitter(), 0, path+".max_ejection_time_jitter"),
		MaxEjectionPercent:    number(in.GetMaxEjectionPercent(), 10),
		AlwaysEjectOne:        in.GetAlwaysEjectOneHost().GetValue(),
		SplitLocalOrigin:      in.GetSplitExternalLocalOriginErrors(),
		Consecutive5xx:        consecutive(in.GetConsecutive_5Xx(), in.GetEnforcingConsecutive_5Xx(), 100),
		ConsecutiveGateway:    consecutive(in.GetConsecutiveGatewayFailure(), in.GetEnforcingConsecutiveGatewayFailure(), 0),
		ConsecutiveLocalOrigin: consecutive(in.GetConsecutiveLocalOriginFailure(),
			in.GetEnforcingConsecutiveLocalOriginFailure(), 100),
		SuccessRate: model.SuccessRateRule{
			MinimumHosts:         number(in.GetSuccessRateMinimumHosts(), 5),
			RequestVolume:        number(in.GetSuccessRateRequestVolume(), 100),
			StdevFactor:          number(in.GetSuccessRateStdevFactor(), 1900),
			Enforcing:            number(in.GetEnforcingSuccessRate(), 100),
			EnforcingLocalOrigin: number(in.GetEnforcingLocalOriginSuccessRate(), 100),
		},
		FailurePercentage: model.FailurePercentageRule{
			MinimumHosts:         number(in.GetFailurePercentageMinimumHosts(), 5),
			RequestVolume:        number(in.GetFailurePercentageRequestVolume(), 50),
			Threshold:            number(in.GetFailurePercentageThreshold(), 85),
			Enforcing:            number(in.GetEnforcingFailurePercentage(), 0),
			EnforcingLocalOrigin: number(in.GetEnforcingFailurePercentageLocalOrigin(), 0),
		},
		UnejectOnCheck: boolOr(in.GetSuccessfulActiveHealthCheckUnejectHost(), true),
	}
	longest := max(defaultMaxEjectionTime, out.BaseEjectionTime)
	out.MaxEjectionTime = t.Positive(in.GetMaxEjectionTime(), longest, path+".max_ejection_time")
	if out.MaxEjectionTime < out.BaseEjectionTime {
		t.p.Add(path+".max_ejection_time", "%s is less than base_ejection_time, %s, which Envoy refuses; use at least that",
			out.MaxEjectionTime, out.BaseEjectionTime)
	}
	return out
}

// consecutive is for five failures in a row where nothing else is said.
func consecutive(count, enforcing *wrapperspb.UInt32Value, enforcingDefault uint32) model.ConsecutiveRule {
	return model.ConsecutiveRule{Count: number(count, 5), Enforcing: number(enforcing, enforcingDefault)}
}

func number(v *wrapperspb.UInt32Value, absent uint32) uint32 {
	if v == nil {
		return absent
	}
	return v.GetValue()
}

func boolOr(v *wrapperspb.BoolValue, absent bool) bool {
	if v == nil {
		return absent
	}
	return v.GetValue()
}

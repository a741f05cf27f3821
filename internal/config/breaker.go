// SPDX-License-Identifier: Apache-2.0

package config

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

var priorities = map[corev3.RoutingPriority]model.Priority{
	corev3.RoutingPriority_DEFAULT: model.PriorityDefault,
	corev3.RoutingPriority_HIGH:    model.PriorityHigh,
}

// breakers translates a cluster's thresholds. As in Envoy the first of a priority counts.
func (t *translator) breakers(in *clusterv3.CircuitBreakers, out *model.Cluster, path string) {
	for i, th := range in.GetThresholds() {
		p := priorities[th.GetPriority()]
		if out.Breakers[p] != nil {
			t.p.Add(problem.At(path+".thresholds", i)+".priority", "a second entry for %s, which Envoy passes over; remove it", th.GetPriority())
			continue
		}
		b := model.DefaultBreakers()
		override(&b.MaxConnections, th.GetMaxConnections())
		override(&b.MaxPending, th.GetMaxPendingRequests())
		override(&b.MaxRequests, th.GetMaxRequests())
		override(&b.MaxRetries, th.GetMaxRetries())
		b.Budget = budget(th.GetRetryBudget())
		b.NoPools = th.GetMaxConnectionPools() != nil && th.GetMaxConnectionPools().GetValue() == 0
		b.TrackRemaining = th.GetTrackRemaining()
		out.Breakers[p] = &b
	}
}

func override(field *uint32, value *wrapperspb.UInt32Value) {
	if value != nil {
		*field = value.GetValue()
	}
}

func budget(in *clusterv3.CircuitBreakers_Thresholds_RetryBudget) *model.RetryBudget {
	if in == nil {
		return nil
	}
	out := &model.RetryBudget{Percent: model.DefaultBudgetPercent, Min: model.DefaultBudgetMin}
	if p := in.GetBudgetPercent(); p != nil {
		out.Percent = p.GetValue()
	}
	override(&out.Min, in.GetMinRetryConcurrency())
	return out
}

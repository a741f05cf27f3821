// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"math"
	"net/netip"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xlb-project/xlb/internal/config/headers"
	"github.com/xlb-project/xlb/internal/config/values"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// Scope is what clusters are translated in.
type Scope struct {
	// Values reads values of the document, and collects its problems.
	Values *values.Reader
	// Bootstrap has the static clusters, among which are servers of secrets, and says whether there is a control plane.
	Bootstrap *bootstrapv3.Bootstrap
	// View has the clusters.
	View model.View
	// Dynamic: the clusters are not part of the bootstrap. Of these some endpoints may be left out, where XLB does not have what they expect.
	Dynamic bool
	// EnvoyHeaders is as in headers.Scope.
	EnvoyHeaders bool
	// Assignment returns the endpoints of a cluster, which are found as discovery says, and their path. For a cluster without endpoints it is empty.
	Assignment func(c *clusterv3.Cluster, discovery model.Discovery, path string) (*endpointv3.ClusterLoadAssignment, string)
}

// translator translates one cluster.
type translator struct {
	*values.Reader
	p       *problem.List
	headers *headers.Reader
	in      Scope
}

func newTranslator(in Scope) *translator {
	return &translator{
		Reader: in.Values, p: in.Values.Problems(), headers: headers.NewReader(in.Values, headers.Scope{EnvoyHeaders: in.EnvoyHeaders, Checks: true}), in: in,
	}
}

// Envoy's defaults.
const (
	// Cluster.LeastRequestLbConfig.choice_count
	defaultChoiceCount = 2
	// Cluster.dns_refresh_rate
	defaultDNSRefresh = 5 * time.Second
)

// Translate translates a cluster at that path, with its endpoints (Cluster); the caller sees to it that names differ. isOriginal: the endpoint of the
// cluster is where a client meant to go (type ORIGINAL_DST), which is known when all listeners are.
func Translate(in Scope, c *clusterv3.Cluster, path string) (out *model.Cluster, isOriginal bool) {
	t := newTranslator(in)
	out = &model.Cluster{
		View:           in.View,
		Name:           c.GetName(),
		StatName:       c.GetAltStatName(),
		Policy:         policyOf(c.GetLbPolicy()),
		ChoiceCount:    defaultChoiceCount,
		OverrideStatus: overrideStatus(c),
		ConnectTimeout: t.Positive(c.GetConnectTimeout(), model.DefaultConnectTimeout, path+".connect_timeout"),
		Outlier:        t.outlier(c.GetOutlierDetection(), path+".outlier_detection"),
		HealthCheck:    t.healthCheck(c.GetHealthChecks(), path+".health_checks"),
	}
	t.protocolOptions(out, c, path)
	t.breakers(c.GetCircuitBreakers(), out, path+".circuit_breakers")
	t.discovery(out, c, path)
	t.droppedHealth(out, c, path)
	assignment, assignmentPath := t.in.Assignment(c, out.Discovery, path)
	out.Balancing = balancing(c, assignment)
	t.policyConfig(out, c, path)
	var byName bool
	switch {
	case c.GetLoadBalancingPolicy() != nil:
		byName = t.extension(out, c, path)
	case c.GetLbPolicy() == clusterv3.Cluster_LOAD_BALANCING_POLICY_CONFIG:
		t.p.Add(path+".lb_policy", "needs load_balancing_policy; write it, or use another lb_policy")
	default:
		out.Hashing, byName = t.hashing(c, out.Policy, path)
	}
	out.Subsets = t.subsets(c, path+".lb_subset_config")
	matcher := t.matcherOf(c, path)
	out.Sockets = matcher.secured()
	t.endpoints(out, assignment, endpointRules{byName: byName, matcher: matcher}, assignmentPath)
	t.logical(out, c, path+".load_assignment")
	return out, t.originalCluster(out, c, matcher, path)
}

// CheckAssignment checks endpoints for whatever cluster has them, at no path (ClusterLoadAssignment).
func CheckAssignment(in Scope, a *endpointv3.ClusterLoadAssignment) {
	newTranslator(in).endpoints(&model.Cluster{Discovery: model.EDS}, a, endpointRules{}, "")
}

// droppedHealth refuses what XLB does not do with endpoints that are listed no more.
func (t *translator) droppedHealth(out *model.Cluster, c *clusterv3.Cluster, path string) {
	if out.HealthCheck == nil || c.GetIgnoreHealthOnHostRemoval() {
		return
	}
	path += ".ignore_health_on_host_removal"
	if out.Discovery == model.StrictDNS {
		t.p.Add(path, "has to be true: XLB drops the addresses that a name has lost, though they pass their health checks")
	}
	if out.Discovery == model.EDS {
		t.p.Add(path, "has to be true: XLB drops the endpoints that are listed no more, though they pass their health checks")
	}
}

// policyConfig translates what belongs to one lb_policy.
func (t *translator) policyConfig(out *model.Cluster, c *clusterv3.Cluster, path string) {
	idle := func(field string, wanted model.Policy) {
		if out.Policy != wanted && c.GetLoadBalancingPolicy() == nil {
			t.p.Add(path+"."+field, "has no effect with lb_policy %s; remove it or use %s", out.Policy, wanted)
		}
	}
	if rr := c.GetRoundRobinLbConfig(); rr != nil {
		idle("round_robin_lb_config", model.RoundRobin)
		out.SlowStart = t.slowStart(rr.GetSlowStartConfig(), path+".round_robin_lb_config.slow_start_config")
	}
	if lr := c.GetLeastRequestLbConfig(); lr != nil {
		idle("least_request_lb_config", model.LeastRequest)
		out.SlowStart = t.slowStart(lr.GetSlowStartConfig(), path+".least_request_lb_config.slow_start_config")
		if n := lr.GetChoiceCount(); n != nil {
			out.ChoiceCount = n.GetValue()
		}
		out.Unbiased = t.unbiased(lr.GetActiveRequestBias(), path+".least_request_lb_config.active_request_bias")
	}
}

// unbiased translates an active_request_bias.
func (t *translator) unbiased(bias *corev3.RuntimeDouble, path string) bool {
	if bias == nil || bias.GetDefaultValue() == 1 {
		return false
	}
	if bias.GetDefaultValue() != 0 {
		t.p.Add(path+".default_value", "%v; XLB has 1, Envoy's default, and 0, which weighs without a look at requests: write one of them", bias.GetDefaultValue())
	}
	return true
}

func policyOf(p clusterv3.Cluster_LbPolicy) model.Policy {
	switch p {
	case clusterv3.Cluster_LEAST_REQUEST:
		return model.LeastRequest
	case clusterv3.Cluster_RANDOM:
		return model.Random
	case clusterv3.Cluster_RING_HASH:
		return model.RingHash
	case clusterv3.Cluster_MAGLEV:
		return model.Maglev
	default:
		return model.RoundRobin
	}
}

// endpointRules are those of one cluster. byName: endpoints are hashed by their names. matcher finds their transport sockets.
type endpointRules struct {
	byName  bool
	matcher *transportSocketMatcher
}

// endpoints fills in the targets and, where they are addresses, the endpoints.
func (t *translator) endpoints(c *model.Cluster, a *endpointv3.ClusterLoadAssignment, rules endpointRules, path string) {
	seen := map[model.Target]firstTarget{}
	var weights uint64
	for i, locality := range a.GetEndpoints() {
		for j, lb := range locality.GetLbEndpoints() {
			targetPath := problem.At(problem.At(path+".endpoints", i)+".lb_endpoints", j)
			target, ok := t.target(c, lb, targetPath)
			if !ok {
				continue
			}
			target.Placement = placementOf(locality)
			key := model.Target{Host: target.Host, Port: target.Port}
			first, twice := seen[key]
			if twice && c.Discovery == model.EDS {
				continue // as in Envoy, which takes the first
			}
			expects := rules.matcher.of(lb, locality)
			if !twice {
				first = firstTarget{targetPath, target.Check, expects.tls}
				seen[key] = first
			}
			t.oneOfSeveral(first, &target, expects.tls, targetPath)
			if why := expects.why; why != nil {
				c.LeftOut = append(c.LeftOut, model.LeftOut{Host: target.Host, Port: target.Port, Reason: why.Reason, Socket: why.Socket})
				continue
			}
			if target.TLS = expects.tls; expects.tls != nil && expects.tls.AutoHostSNI {
				target.Hostname = hostnameOf(lb, c.Discovery)
			}
			if c.Policy.Hashes() {
				target.HashKey = hashKey(lb, rules.byName)
			}
			target.Metadata = t.endpointMetadata(c.Subsets, lb.GetMetadata(), targetPath+".metadata")
			weights += uint64(target.Weight)
			c.Targets = append(c.Targets, target)
		}
	}
	if n := len(c.Targets); n > model.MaxEndpoints {
		t.p.Add(path+".endpoints", "%d endpoints; XLB has room for %d of all clusters together: configure fewer", n, model.MaxEndpoints)
	}
	t.localityWeights(a, path)
	if weights > math.MaxUint32 {
		t.p.Add(path, "the endpoints' load_balancing_weight sum to more than %d; scale them down", uint32(math.MaxUint32))
	}
	if c.Discovery == model.Static || c.Discovery == model.EDS {
		c.Endpoints = staticEndpoints(c.Targets)
	}
}

// firstTarget is where an address of a cluster stands first, and what there is once for all its places.
type firstTarget struct {
	path  string
	check model.EndpointCheck
	tls   *model.UpstreamTLS
}

// oneOfSeveral refuses what an address that stands in several places of a cluster cannot have of its own in each: it is one endpoint, asked by one
// health check and connected to in one way. Envoy has a host for each place.
func (t *translator) oneOfSeveral(first firstTarget, again *model.Target, tls *model.UpstreamTLS, path string) {
	if again.Check != first.check {
		t.p.Add(path+".endpoint.health_check_config", "another one than of the same address at %s, which XLB checks once; write the same there", first.path)
	}
	if keyOfTLS(tls) != keyOfTLS(first.tls) {
		t.p.Add(path+".metadata", "leads to another transport socket than the same address at %s, to which XLB connects in one way; write the same there", first.path)
	}
}

func keyOfTLS(tls *model.UpstreamTLS) string {
	if tls == nil {
		return ""
	}
	return tls.Key
}

// target translates one endpoint. The host of a Static target is an IP address
// in its canonical form.
func (t *translator) target(c *model.Cluster, lb *endpointv3.LbEndpoint, path string) (model.Target, bool) {
	check := t.endpointCheck(lb.GetEndpoint().GetHealthCheckConfig(), path+".endpoint.health_check_config")
	path += ".endpoint.address"
	host, port, ok := t.HostPort(lb.GetEndpoint().GetAddress(), path)
	if !ok {
		return model.Target{}, false
	}
	hostPath := path + ".socket_address.address"
	if _, err := netip.ParseAddr(host); err == nil || !c.Discovery.Named() {
		ip := t.IP(host, hostPath)
		if !ip.IsValid() {
			return model.Target{}, false
		}
		if ip.IsUnspecified() || ip.IsMulticast() {
			t.p.Add(hostPath, "%s is no address of an endpoint; name the one it listens at", ip)
			return model.Target{}, false
		}
		host = ip.String()
	}
	weight := uint32(1)
	if w := lb.GetLoadBalancingWeight(); w != nil {
		weight = w.GetValue()
	}
	return model.Target{Host: host, Port: port, Weight: weight, Health: healthStatuses[lb.GetHealthStatus()], Check: check}, true
}

// hostnameOf is Envoy's name of an endpoint; empty: it has none.
func hostnameOf(lb *endpointv3.LbEndpoint, d model.Discovery) string {
	if name := lb.GetEndpoint().GetHostname(); name != "" || !d.Named() {
		return name
	}
	return lb.GetEndpoint().GetAddress().GetSocketAddress().GetAddress()
}

func staticEndpoints(targets []model.Target) []model.Endpoint {
	endpoints := make([]model.Endpoint, 0, len(targets))
	for _, target := range targets {
		if ip, err := netip.ParseAddr(target.Host); err == nil {
			endpoints = append(endpoints, target.At(ip))
		}
	}
	return endpoints
}

// breakers translates a cluster's thresholds. As in Envoy the first of a priority counts.
func (t *translator) breakers(in *clusterv3.CircuitBreakers, out *model.Cluster, path string) {
	for i, th := range in.GetThresholds() {
		p := values.Priority(th.GetPriority())
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

// originalCluster checks a cluster of type ORIGINAL_DST, and reports one whose endpoint XLB can serve.
func (t *translator) originalCluster(out *model.Cluster, c *clusterv3.Cluster, matcher *transportSocketMatcher, path string) bool {
	if provided := c.GetLbPolicy() == clusterv3.Cluster_CLUSTER_PROVIDED; provided != (out.Discovery == model.OriginalDst) {
		t.p.Add(path+".lb_policy", "CLUSTER_PROVIDED and type ORIGINAL_DST belong together; write both or neither")
	}
	if out.Discovery != model.OriginalDst {
		return false
	}
	if c.GetLoadAssignment() != nil {
		t.p.Add(path+".load_assignment", "set for a cluster of type ORIGINAL_DST, which Envoy refuses; remove it")
	}
	if len(c.GetHealthChecks()) > 0 {
		t.p.Add(path+".health_checks", "not supported for ORIGINAL_DST; use STATIC with the address")
	}
	// One beyond 65535 is a violation of Envoy's constraint, reported as such.
	port := uint16(c.GetOriginalDstLbConfig().GetUpstreamPortOverride().GetValue())
	expects := matcher.of(nil, nil)
	if expects.tls != nil {
		expects.why = &model.LeftOut{Reason: model.LeftOutTLS}
	}
	if why := expects.why; why != nil {
		// Whoever it would be.
		out.LeftOut = []model.LeftOut{{Host: "the original destination", Port: port, Reason: why.Reason, Socket: why.Socket}}
		return false
	}
	out.OriginalPort = port
	return true
}

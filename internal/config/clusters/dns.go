// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"net/netip"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/common/dns/v3"
	dnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dns/v3"
	caresv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/network/dns_resolver/cares/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// families of a Cluster and of a DnsCluster, whose default is AUTO as well.
var (
	families = map[clusterv3.Cluster_DnsLookupFamily]model.Family{
		clusterv3.Cluster_AUTO: model.FamilyAuto, clusterv3.Cluster_V4_ONLY: model.FamilyV4, clusterv3.Cluster_V6_ONLY: model.FamilyV6,
		clusterv3.Cluster_V4_PREFERRED: model.FamilyV4Preferred, clusterv3.Cluster_ALL: model.FamilyAll,
	}
	extensionFamilies = map[commonv3.DnsLookupFamily]model.Family{
		commonv3.DnsLookupFamily_UNSPECIFIED: model.FamilyAuto, commonv3.DnsLookupFamily_AUTO: model.FamilyAuto,
		commonv3.DnsLookupFamily_V4_ONLY: model.FamilyV4, commonv3.DnsLookupFamily_V6_ONLY: model.FamilyV6,
		commonv3.DnsLookupFamily_V4_PREFERRED: model.FamilyV4Preferred, commonv3.DnsLookupFamily_ALL: model.FamilyAll,
	}
)

// discovery translates where endpoints come from, and how names are looked up.
func (t *translator) discovery(out *model.Cluster, c *clusterv3.Cluster, path string) {
	switch {
	case c.GetClusterType() != nil:
		t.dnsCluster(out, c.GetClusterType(), path+".cluster_type")
	case c.GetType() == clusterv3.Cluster_STRICT_DNS:
		out.Discovery = model.StrictDNS
	case c.GetType() == clusterv3.Cluster_LOGICAL_DNS:
		out.Discovery = model.LogicalDNS
	case c.GetType() == clusterv3.Cluster_ORIGINAL_DST:
		out.Discovery = model.OriginalDst
	case c.GetType() == clusterv3.Cluster_EDS:
		out.Discovery = model.EDS
	}
	if c.GetClusterType() == nil {
		t.dnsFields(out, c, path)
	}
	if out.Discovery == model.LogicalDNS && out.DNS.Family == model.FamilyAll {
		t.p.Add(path, "ALL addresses of one logical host are not supported; use V4_PREFERRED or AUTO as the family, or STRICT_DNS")
	}
}

//nolint:staticcheck // the fields are deprecated in favour of cluster_type, but what files have
func (t *translator) dnsFields(out *model.Cluster, c *clusterv3.Cluster, path string) {
	out.DNSRefresh = t.Positive(c.GetDnsRefreshRate(), defaultDNSRefresh, path+".dns_refresh_rate")
	out.DNS.RespectTTL = c.GetRespectDnsTtl()
	out.DNS.Jitter = t.Duration(c.GetDnsJitter(), 0, path+".dns_jitter")
	out.DNS.Family = families[c.GetDnsLookupFamily()]
	if f := c.GetDnsFailureRefreshRate(); f != nil {
		out.DNS.FailureBase, out.DNS.FailureMax = t.failureRate(f, out.DNSRefresh, path+".dns_failure_refresh_rate")
	}
	t.cares(&out.DNS, c.GetTypedDnsResolverConfig(), path+".typed_dns_resolver_config")
}

// dnsCluster translates the extension that takes the place of both types.
func (t *translator) dnsCluster(out *model.Cluster, in *clusterv3.Cluster_CustomClusterType, path string) {
	d := &dnsv3.DnsCluster{}
	path += ".typed_config"
	if !t.Unpack(in.GetTypedConfig(), d, path, "DnsCluster") {
		return
	}
	out.Discovery = model.StrictDNS
	if d.GetAllAddressesInSingleEndpoint() {
		out.Discovery = model.LogicalDNS
	}
	out.DNSRefresh = t.Positive(d.GetDnsRefreshRate(), defaultDNSRefresh, path+".dns_refresh_rate")
	out.DNS.RespectTTL = d.GetRespectDnsTtl()
	out.DNS.MinRefresh = t.Duration(d.GetDnsMinRefreshRate(), 0, path+".dns_min_refresh_rate")
	out.DNS.Jitter = t.Duration(d.GetDnsJitter(), 0, path+".dns_jitter")
	out.DNS.Family = extensionFamilies[d.GetDnsLookupFamily()]
	if f := d.GetDnsFailureRefreshRate(); f != nil {
		out.DNS.FailureBase, out.DNS.FailureMax = t.failureRate(f, out.DNSRefresh, path+".dns_failure_refresh_rate")
	}
	t.cares(&out.DNS, d.GetTypedDnsResolverConfig(), path+".typed_dns_resolver_config")
}

// refreshRate is a message that both kinds of cluster have.
type refreshRate interface {
	GetBaseInterval() *durationpb.Duration
	GetMaxInterval() *durationpb.Duration
}

// failureRate translates a dns_failure_refresh_rate; the default of max_interval is ten times the other.
func (t *translator) failureRate(in refreshRate, refresh time.Duration, path string) (first, longest time.Duration) {
	first = t.Positive(in.GetBaseInterval(), refresh, path+".base_interval")
	longest = t.Positive(in.GetMaxInterval(), 10*first, path+".max_interval")
	if longest < first {
		t.p.Add(path+".max_interval", "%s is less than base_interval, %s, which Envoy refuses; use at least that", longest, first)
	}
	return first, longest
}

// cares translates whom c-ares would ask.
func (t *translator) cares(out *model.DNS, in *corev3.TypedExtensionConfig, path string) {
	if in == nil {
		return
	}
	path += ".typed_config"
	c := &caresv3.CaresDnsResolverConfig{}
	if !t.Unpack(in.GetTypedConfig(), c, path, "CaresDnsResolverConfig") {
		return
	}
	for i, r := range c.GetResolvers() {
		place := problem.At(path+".resolvers", i)
		host, port, ok := t.HostPort(r, place)
		if !ok {
			continue
		}
		if ip := t.IP(host, place+".socket_address.address"); ip.IsValid() {
			out.Servers = append(out.Servers, netip.AddrPortFrom(ip, port))
		}
	}
	out.TCP = c.GetDnsResolverOptions().GetUseTcpForDnsLookups()
	out.NoSearch = c.GetDnsResolverOptions().GetNoDefaultSearchDomain()
}

// logical refuses what Envoy refuses in place of the one endpoint of a LOGICAL_DNS cluster.
func (t *translator) logical(out *model.Cluster, c *clusterv3.Cluster, path string) {
	if out.Discovery != model.LogicalDNS {
		return
	}
	localities := c.GetLoadAssignment().GetEndpoints()
	if len(localities) != 1 || len(localities[0].GetLbEndpoints()) != 1 {
		t.p.Add(path, "a LOGICAL_DNS cluster has one endpoint, in one locality; use STRICT_DNS for several")
	}
}

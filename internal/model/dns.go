// SPDX-License-Identifier: Apache-2.0

package model

import (
	"net/netip"
	"time"
)

// DNS says how the names of a cluster are looked up, beside Cluster.DNSRefresh. The zero value is Envoy's default.
type DNS struct {
	// RespectTTL makes the time to live of an answer, if it is not 0, the time to the next look-up (Cluster.respect_dns_ttl), which is
	// MinRefresh at least (DnsCluster.dns_min_refresh_rate).
	RespectTTL bool
	MinRefresh time.Duration
	// Jitter is added to every wait, a random part of it (Cluster.dns_jitter).
	Jitter time.Duration
	// FailureBase and FailureMax are the first and the longest wait after failures in a row, of which a random part is waited
	// (Cluster.dns_failure_refresh_rate). Without FailureBase the wait is Cluster.DNSRefresh.
	FailureBase, FailureMax time.Duration
	Family                  Family
	// Servers are asked in their order; none are those of the host.
	Servers []netip.AddrPort
	// TCP asks over TCP only (DnsResolverOptions.use_tcp_for_dns_lookups).
	TCP bool
	// NoSearch leaves out the search domains of the host (DnsResolverOptions.no_default_search_domain).
	NoSearch bool
}

// Family is Cluster.DnsLookupFamily: which addresses of a name are used.
type Family uint8

const (
	// FamilyAuto takes the IPv6 addresses or, if there are none, the IPv4 addresses.
	FamilyAuto Family = iota
	// FamilyV4 takes IPv4 addresses only.
	FamilyV4
	// FamilyV6 takes IPv6 addresses only.
	FamilyV6
	// FamilyV4Preferred takes the IPv4 addresses or, if there are none, the IPv6 addresses.
	FamilyV4Preferred
	// FamilyAll takes all addresses.
	FamilyAll
)

// String returns Envoy's name of the family.
func (f Family) String() string {
	return [...]string{"AUTO", "V4_ONLY", "V6_ONLY", "V4_PREFERRED", "ALL"}[f]
}

// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/xlb-project/xlb/bench/chain"
)

// Peers of the rules case only: rules of the kernel's packet filter, one for each service, or one for all that looks them up.
const (
	Nft    = "nft"
	NftMap = "nft-map"
)

const (
	// clustersMost is how many clusters unrelated services share: XLB takes 4,096 and Envoy starts slowly with more.
	clustersMost = 4000
	// nftMost bounds the rules that the kernel walks through one by one.
	nftMost = 10_000
)

// firstUnrelated is the address of the first unrelated service; nobody is there.
var firstUnrelated = netip.MustParseAddrPort("127.90.0.1:8080")

// Unrelated is a service that nobody asks.
type Unrelated struct {
	Name    string
	Cluster string
}

// UnrelatedServices are n of them, and their clusters.
func UnrelatedServices(n int) (services []Unrelated, clusters []Listener) {
	for i, address := range chain.Addresses(firstUnrelated, min(n, clustersMost)) {
		clusters = append(clusters, Listener{Name: fmt.Sprintf("unrelated%d", i), Endpoints: []netip.AddrPort{address}})
	}
	for i := range n {
		services = append(services, Unrelated{Name: fmt.Sprintf("service-%06d.example", i), Cluster: clusters[i%len(clusters)].Name})
	}
	return services, clusters
}

// FilterTable is the table of nftables that the rules are in.
const FilterTable = "xlb-bench"

// nftChain sends connections to the service, behind n rules of others, to an endpoint at random, as kube-proxy does.
const nftChain = `table ip %s {
%s	chain output {
		type nat hook output priority -100; policy accept;
%s		ip daddr %s tcp dport %d dnat ip addr . port to numgen random mod %d map { %s }
	}
}
`

func nftText(endpoints []netip.AddrPort, sets, rules string) string {
	var choices []string
	for i, e := range endpoints {
		choices = append(choices, fmt.Sprintf("%d : %s . %d", i, e.Addr(), e.Port()))
	}
	return fmt.Sprintf(nftChain, FilterTable, sets, rules, ServiceAddress.Addr(), ServiceAddress.Port(), len(endpoints), strings.Join(choices, ", "))
}

// FilterRules has a rule for each of n unrelated services before that of the service.
func FilterRules(endpoints []netip.AddrPort, n int) string {
	var rules strings.Builder
	for _, address := range chain.Addresses(firstUnrelated, n) {
		fmt.Fprintf(&rules, "\t\tip daddr %s tcp dport %d dnat to %s\n", address.Addr(), address.Port(), endpoints[0])
	}
	return nftText(endpoints, "", rules.String())
}

// FilterMap has one rule that looks n unrelated services up.
func FilterMap(endpoints []netip.AddrPort, n int) string {
	if n == 0 {
		return nftText(endpoints, "", "")
	}
	var elements []string
	for _, address := range chain.Addresses(firstUnrelated, n) {
		elements = append(elements, fmt.Sprintf("%s . %d : %s . %d", address.Addr(), address.Port(), endpoints[0].Addr(), endpoints[0].Port()))
	}
	sets := fmt.Sprintf("\tmap services {\n\t\ttype ipv4_addr . inet_service : ipv4_addr . inet_service\n\t\telements = { %s }\n\t}\n", strings.Join(elements, ",\n"))
	return nftText(endpoints, sets, "\t\tdnat ip addr . port to ip daddr . tcp dport map @services\n")
}

// packetFilters are the peers that are rules and no process.
func packetFilters() []Peer {
	return []Peer{
		{Name: Nft, about: "a rule of nftables for each service, the service's last", needs: []string{"nft"}},
		{Name: NftMap, about: "a map of nftables", needs: []string{"nft"}},
	}
}

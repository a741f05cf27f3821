// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/xlb-project/xlb/bench/chain"
	"github.com/xlb-project/xlb/bench/lab"
)

// What is opened in the rules case: a connection for each request, or connections for all.
const (
	wayShort = "short"
	wayKept  = "kept"
)

// Peers of the rules case only: rules of the kernel's packet filter, one for each service, or one for all that looks them up.
const (
	peerNft    = "nft"
	peerNftMap = "nft-map"
)

const (
	// clustersMost is how many clusters unrelated services share: XLB takes 4,096 and Envoy starts slowly with more.
	clustersMost = 4000
	// nftMost bounds the rules that the kernel walks through one by one.
	nftMost = 10_000
)

// firstUnrelated is the address of the first unrelated service; nobody is there.
var firstUnrelated = netip.MustParseAddrPort("127.90.0.1:8080")

// unrelated is a service that nobody asks.
type unrelated struct {
	Name    string
	Cluster string
}

// unrelatedServices are n of them, and their clusters.
func unrelatedServices(n int) (services []unrelated, clusters []listener) {
	for i, address := range chain.Addresses(firstUnrelated, min(n, clustersMost)) {
		clusters = append(clusters, listener{Name: fmt.Sprintf("unrelated%d", i), Endpoints: []netip.AddrPort{address}})
	}
	for i := range n {
		services = append(services, unrelated{Name: fmt.Sprintf("service-%06d.example", i), Cluster: clusters[i%len(clusters)].Name})
	}
	return services, clusters
}

// stageRules gives the peer its unrelated services.
func (b *bed) stageRules(ctx context.Context, p peer, l load) (s staged, err error) {
	s.peer = p
	b.site.unrelated, b.site.clusters = unrelatedServices(l.Rules)
	if !p.isFilter() {
		return s, nil
	}
	b.site.front = []netip.AddrPort{serviceAddress}
	text := nftRules(b.site.endpoints, l.Rules)
	if p.name == peerNftMap {
		text = nftMap(b.site.endpoints, l.Rules)
	}
	if err := b.nft(ctx, text); err != nil {
		return s, err
	}
	s.undo = func() error { return b.nft(context.WithoutCancel(ctx), "delete table ip "+nftTable+"\n") }
	return s, nil
}

// nft has the packet filter of the clients' host read a file.
func (b *bed) nft(ctx context.Context, text string) error { return b.nftOn(ctx, lab.ClientHost, text) }

func (b *bed) nftOn(ctx context.Context, host lab.Host, text string) error {
	path, err := b.tools.find("nft")
	if err != nil {
		return err
	}
	file := filepath.Join(b.site.dir, "rules.nft")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	running, err := b.lab.Start(lab.Command{Name: "nft", Path: path, Args: []string{"-f", file}, Role: lab.Balancer, Host: host})
	if err != nil {
		return err
	}
	_, err = running.Wait(ctx)
	return err
}

const nftTable = "xlb-bench"

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
	return fmt.Sprintf(nftChain, nftTable, sets, rules, serviceAddress.Addr(), serviceAddress.Port(), len(endpoints), strings.Join(choices, ", "))
}

// nftRules has a rule for each of n unrelated services before that of the service.
func nftRules(endpoints []netip.AddrPort, n int) string {
	var rules strings.Builder
	for _, address := range chain.Addresses(firstUnrelated, n) {
		fmt.Fprintf(&rules, "\t\tip daddr %s tcp dport %d dnat to %s\n", address.Addr(), address.Port(), endpoints[0])
	}
	return nftText(endpoints, "", rules.String())
}

// nftMap has one rule that looks n unrelated services up.
func nftMap(endpoints []netip.AddrPort, n int) string {
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
func packetFilters() []peer {
	return []peer{
		{name: peerNft, about: "a rule of nftables for each service, the service's last", needs: []string{"nft"}},
		{name: peerNftMap, about: "a map of nftables", needs: []string{"nft"}},
	}
}

// takesRules reports whether a peer can have so many unrelated services.
func (p peer) takesRules(l load) bool {
	switch p.name {
	case peerDirect, peerXLB, peerEnvoy, peerNftMap:
		return true
	case peerNft:
		return l.Rules <= nftMost
	}
	return false
}

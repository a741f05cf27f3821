// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/binary"
	"net/netip"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	managerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

const tableName = "services"

func ads() *corev3.ConfigSource {
	return &corev3.ConfigSource{ResourceApiVersion: corev3.ApiVersion_V3, ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}
}

func clusterOf(name string) types.Resource {
	return &clusterv3.Cluster{
		Name: name, ConnectTimeout: durationpb.New(time.Second), LbPolicy: clusterv3.Cluster_LEAST_REQUEST,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: ads()},
	}
}

func assignmentOf(name string, addresses ...netip.AddrPort) types.Resource {
	list := make([]*endpointv3.LbEndpoint, len(addresses))
	for i, a := range addresses {
		list[i] = &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: addressOf(a)}}}
	}
	return &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: list}}}
}

func addressOf(a netip.AddrPort) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: a.Addr().String(), PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(a.Port())},
	}}}
}

func listenerOf(front netip.AddrPort) types.Resource {
	manager := &managerv3.HttpConnectionManager{
		StatPrefix:     tableName,
		RouteSpecifier: &managerv3.HttpConnectionManager_Rds{Rds: &managerv3.Rds{ConfigSource: ads(), RouteConfigName: tableName}},
		HttpFilters: []*managerv3.HttpFilter{{
			Name: "envoy.filters.http.router", ConfigType: &managerv3.HttpFilter_TypedConfig{TypedConfig: packed(&routerv3.Router{})},
		}},
	}
	return &listenerv3.Listener{Name: "front", Address: addressOf(front), FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
		Name: "envoy.filters.network.http_connection_manager", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(manager)},
	}}}}}
}

func tableOf(services int) types.Resource {
	table := &routev3.RouteConfiguration{Name: tableName, VirtualHosts: []*routev3.VirtualHost{hostOf(Probed)}}
	for i := range services {
		table.VirtualHosts = append(table.VirtualHosts, hostOf(name(i)))
	}
	return table
}

func hostOf(name string) *routev3.VirtualHost {
	return &routev3.VirtualHost{Name: name, Domains: []string{name}, Routes: []*routev3.Route{{
		Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: name}}},
	}}}
}

func packed(m proto.Message) *anypb.Any {
	a, err := anypb.New(m)
	if err != nil {
		panic(err) // It is a message of this package, and whole.
	}
	return a
}

// nth is the n-th address behind the first, an IPv4 one.
func nth(first netip.AddrPort, n int) netip.AddrPort {
	bytes := first.Addr().As4()
	binary.BigEndian.PutUint32(bytes[:], binary.BigEndian.Uint32(bytes[:])+uint32(n))
	return netip.AddrPortFrom(netip.AddrFrom4(bytes), first.Port())
}

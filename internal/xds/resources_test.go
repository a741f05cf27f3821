// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Resources of these tests have a name and a content, which is a small number; that of a bad one is below 0.

func cluster(name string, content int, service ...string) proto.Message {
	c := &clusterv3.Cluster{
		Name: name, AltStatName: strconv.Itoa(content), ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{EdsConfig: &corev3.ConfigSource{
			ResourceApiVersion: corev3.ApiVersion_V3, ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		}},
	}
	if len(service) > 0 {
		c.EdsClusterConfig.ServiceName = service[0]
	}
	return c
}

func static(name string, content int) proto.Message {
	return &clusterv3.Cluster{Name: name, AltStatName: strconv.Itoa(content)}
}

func assignment(name string, content int) proto.Message {
	a := &endpointv3.ClusterLoadAssignment{ClusterName: name, Policy: &endpointv3.ClusterLoadAssignment_Policy{}}
	if content < 0 {
		a.Policy = nil
		return a
	}
	a.Policy.OverprovisioningFactor = wrapperspb.UInt32(uint32(content))
	return a
}

func listener(name string, content int, routes ...string) proto.Message {
	l := &listenerv3.Listener{Name: name, StatPrefix: strconv.Itoa(content)}
	for _, r := range routes {
		manager := packed(&hcmv3.HttpConnectionManager{RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: r}}})
		l.FilterChains = append(l.FilterChains, &listenerv3.FilterChain{Filters: []*listenerv3.Filter{
			{Name: "envoy.filters.network.http_connection_manager", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: manager}},
		}})
	}
	return l
}

func routes(name string, content int) proto.Message {
	return &routev3.RouteConfiguration{Name: name, VirtualHosts: []*routev3.VirtualHost{{Name: strconv.Itoa(content)}}}
}

func packed(m proto.Message) *anypb.Any {
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err)
	}
	return &anypb.Any{TypeUrl: "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName()), Value: value}
}

// contentOf reads what the functions above have written, and what the resource refers to.
func contentOf(body *anypb.Any) (content int, references []string, err error) {
	m, err := body.UnmarshalNew()
	if err != nil {
		return 0, nil, err
	}
	switch m := m.(type) {
	case *clusterv3.Cluster:
		if m.GetType() == clusterv3.Cluster_EDS {
			references = append(references, cmpOr(m.EdsClusterConfig.GetServiceName(), m.Name))
		}
		content, err = strconv.Atoi(m.AltStatName)
	case *endpointv3.ClusterLoadAssignment:
		if m.Policy == nil {
			return -1, nil, nil
		}
		content = int(m.Policy.OverprovisioningFactor.GetValue())
	case *listenerv3.Listener:
		for _, chain := range m.FilterChains {
			var manager hcmv3.HttpConnectionManager
			if len(chain.Filters) == 0 {
				return 0, nil, errors.New("has a chain without filters")
			}
			if err := chain.Filters[0].GetTypedConfig().UnmarshalTo(&manager); err != nil {
				return 0, nil, err
			}
			references = append(references, manager.GetRds().GetRouteConfigName())
		}
		content, err = strconv.Atoi(m.StatPrefix)
	case *routev3.RouteConfiguration:
		if len(m.VirtualHosts) == 0 {
			return 0, nil, errors.New("has no host")
		}
		content, err = strconv.Atoi(m.VirtualHosts[0].Name)
	}
	return content, references, err
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func check(_ Kind, _ string, body *anypb.Any) ([]string, error) {
	content, references, err := contentOf(body)
	if err == nil && content < 0 {
		err = errors.New("is bad")
	}
	return references, err
}

// text shows a snapshot: "clusters a=1 b=2; routes r=1".
func text(t *testing.T, s Snapshot) string {
	var all []string
	for _, kind := range every {
		line := []string{kind.String()}
		held := *s.of(kind)
		for _, name := range slices.Sorted(maps.Keys(held)) {
			content, _, err := contentOf(held[name].Body)
			if err != nil || held[name].Name != name {
				t.Errorf("resource %q is named %q, error %v", name, held[name].Name, err)
			}
			line = append(line, fmt.Sprintf("%s=%d", name, content))
		}
		if len(held) > 0 {
			all = append(all, strings.Join(line, " "))
		}
	}
	return strings.Join(all, "; ")
}

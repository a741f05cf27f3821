// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xlb-project/xlb/internal/model"
)

func TestListenersWithoutHTTPHaveEnvoysShape(t *testing.T) {
	tests := []struct {
		name string
		tcp  model.TCPProxy
		want string
	}{
		{"one cluster", model.TCPProxy{Clusters: []model.WeightedCluster{{Name: "a", Weight: 1}}, ConnectAttempts: 1}, "a"},
		{"shares", model.TCPProxy{
			Clusters: []model.WeightedCluster{{Name: "a", Weight: 9}, {Name: "b", Weight: 1}}, ConnectAttempts: 3, IdleTimeout: time.Minute,
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := &model.Listener{Name: "db", Address: netip.MustParseAddrPort("127.80.0.1:5432"), StatPrefix: "db", Routes: &model.RouteTable{}, TCP: &tt.tcp}
			b, err := json.Marshal(listenerObject(l))
			if err != nil {
				t.Fatal(err)
			}
			// The shape that an Any has in JSON.
			var fields map[string]any
			if err := json.Unmarshal(b, &fields); err != nil {
				t.Fatal(err)
			}
			delete(fields, "@type")
			if b, err = json.Marshal(fields); err != nil {
				t.Fatal(err)
			}
			var listener listenerv3.Listener
			if err := protojson.Unmarshal(b, &listener); err != nil {
				t.Fatal(err)
			}
			var proxy tcpv3.TcpProxy
			if err := listener.FilterChains[0].Filters[0].GetTypedConfig().UnmarshalTo(&proxy); err != nil {
				t.Fatal(err)
			}
			if err := proxy.ValidateAll(); err != nil {
				t.Error(err)
			}
			shares := proxy.GetWeightedClusters().GetClusters()
			if proxy.GetCluster() != tt.want || tt.want == "" && len(shares) != len(tt.tcp.Clusters) ||
				proxy.GetMaxConnectAttempts().GetValue() != tt.tcp.ConnectAttempts || proxy.GetIdleTimeout().AsDuration() != tt.tcp.IdleTimeout {
				t.Errorf("got %v", &proxy)
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xlb-project/xlb/test/envoytest"
)

// rotten is a cluster that Envoy refuses by itself, as check does.
func rotten(name string) proto.Message {
	return &clusterv3.Cluster{Name: name, AltStatName: "-1", TransportSocket: &corev3.TransportSocket{
		Name: "none", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed(wrapperspb.UInt32(1))},
	}}
}

// inForce waits until a client has these clusters and assignments.
type inForce func(want string)

// The same servers drive this client and Envoy: what they are asked and told is the same, and so is what comes into force.
func TestAsEnvoy(t *testing.T) {
	plays := map[string]func(*dialogue, inForce){
		"whole": playWhole, "delta": playDelta, "delta, mortal": playMortal, "whole, moved": playMoved, "delta, moved": playMoved,
	}
	for form, script := range plays {
		t.Run(form+" xlb", func(t *testing.T) {
			t.Parallel()
			var o *observed
			ready, done := make(chan struct{}), make(chan struct{})
			server := play(t, func(d *dialogue) {
				defer close(done)
				<-ready
				script(d, func(want string) { o.await(want) })
			}, func(d *dialogue) { d.stay() })
			o = observe(t, Config{Servers: []Server{server}, Delta: strings.HasPrefix(form, "delta"), Roots: []Kind{Clusters}})
			close(ready)
			<-done
		})
		t.Run(form+" envoy", func(t *testing.T) {
			t.Parallel()
			envoytest.Binary(t)
			admin, done := envoytest.FreeAddress(t), make(chan struct{})
			server := play(t, func(d *dialogue) {
				defer close(done)
				script(d, func(want string) { awaitEnvoy(t, admin, want) })
			}, func(d *dialogue) { d.stay() })
			envoytest.Start(t, bootstrap(server, admin, form))
			<-done
		})
	}
}

func playWhole(d *dialogue, force inForce) {
	a := d.next(Clusters)
	d.expect(a.version == "" && len(a.names) == 0 && a.node.GetId() == "test", "all clusters", a)
	d.whole(Clusters, "1", "c1", cluster("a", 1, "service"), static("b", 1), static("gone", 1))
	a = d.next(Clusters)
	d.expect(a.version == "1" && a.nonce == "c1" && a.fault == "", "accepted", a)
	a = d.next(Assignments)
	d.expect(slices.Equal(a.names, []string{"service"}) && a.version == "" && a.nonce == "", "by service", a)
	d.whole(Assignments, "1", "e1", assignment("service", 101), assignment("stranger", 1))
	a = d.next(Assignments)
	d.expect(a.version == "1" && a.nonce == "e1" && a.fault == "", "accepted", a)
	force("clusters a=1 b=1 gone=1; assignments service=101")

	d.whole(Clusters, "2", "c2", cluster("a", 1, "service"), static("b", 2), rotten("bad"))
	a = d.next(Clusters)
	d.expect(a.version == "1" && a.nonce == "c2" && strings.Contains(a.fault, "bad: "), "refused, with the name", a)
	force("clusters a=1 b=2; assignments service=101")

	d.whole(Clusters, "3", "c3", cluster("a", 1, "service"), listener("b", 3))
	a = d.next(Clusters)
	d.expect(a.version == "1" && a.nonce == "c3" && a.fault != "", "another type is refused", a)
	d.whole(Assignments, "2", "e2")
	a = d.next(Assignments)
	d.expect(a.version == "2" && a.fault == "", "no assignments are no error", a)
	force("clusters a=1 b=2; assignments service=101")

	d.whole(Clusters, "4", "c4", static("b", 2))
	a = d.next(Clusters)
	d.expect(a.version == "4" && a.fault == "", "accepted", a)
	a = d.next(Assignments)
	d.expect(len(a.names) == 0, "given up", a)
	force("clusters b=2")
}

func playDelta(d *dialogue, force inForce) {
	a := d.next(Clusters)
	d.expect(len(a.subscribe)+len(a.known) == 0 && a.node.GetId() == "test", "all clusters", a)
	d.part(Clusters, "1", "c1", nil, cluster("a", 1, "service"), static("b", 1), static("gone", 1))
	a = d.next(Clusters)
	if len(a.subscribe) > 0 { // Envoy may name what it has
		a = d.next(Clusters)
	}
	d.expect(a.nonce == "c1" && a.fault == "", "accepted", a)
	a = d.next(Assignments)
	d.expect(slices.Equal(a.subscribe, []string{"service"}) && a.nonce == "", "by service", a)
	d.part(Assignments, "1", "e1", nil, assignment("service", 101))
	a = d.next(Assignments)
	d.expect(a.nonce == "e1" && a.fault == "", "accepted", a)
	force("clusters a=1 b=1 gone=1; assignments service=101")

	d.part(Clusters, "2", "c2", []string{"gone"}, static("b", 2), rotten("bad"))
	a = d.next(Clusters)
	d.expect(a.nonce == "c2" && strings.Contains(a.fault, "bad: "), "refused, with the name", a)
	force("clusters a=1 b=2; assignments service=101")

	d.part(Assignments, "2", "e2", []string{"service"})
	a = d.next(Assignments)
	d.expect(a.nonce == "e2" && a.fault == "", "accepted", a)
	d.part(Clusters, "3", "c3", nil, static("b", 3))
	d.next(Clusters)
	force("clusters a=1 b=3; assignments service=101") // what is referred to stays

	d.part(Clusters, "4", "c4", []string{"a"})
	a = d.next(Clusters)
	d.expect(a.nonce == "c4" && a.fault == "", "accepted", a)
	a = d.next(Assignments)
	d.expect(slices.Equal(a.unsubscribe, []string{"service"}), "given up", a)
	force("clusters b=3")
}

// playMortal: heartbeats keep a cluster that has a time to live, and the others with it. In the form that speaks of the state of the world Envoy takes
// a response of heartbeats for one without clusters, and removes all.
func playMortal(d *dialogue, force inForce) {
	d.next(Clusters)
	const ttl = 2 * time.Second
	d.mortal(Clusters, "1", "1", named(static("a", 1), "1", 0), named(static("b", 1), "1", ttl))
	d.next(Clusters)
	force("clusters a=1 b=1")
	for begin := time.Now(); time.Since(begin) < 2*ttl; time.Sleep(ttl / 10) {
		d.mortal(Clusters, "1", "2", heartbeat("b", "1", ttl))
		a := d.next(Clusters)
		d.expect(a.fault == "", "accepted", a)
	}
	force("clusters a=1 b=1")
	force("clusters a=1")
}

// playMoved: a cluster that refers to another assignment than before serves with the old one until the new one has come.
func playMoved(d *dialogue, force inForce) {
	d.next(Clusters)
	d.give(Clusters, "1", "c1", cluster("a", 1, "old"))
	d.next(Clusters)
	a := d.next(Assignments)
	d.expect(slices.Equal(append(a.names, a.subscribe...), []string{"old"}), "the old one", a)
	d.give(Assignments, "1", "e1", assignment("old", 101))
	d.next(Assignments)
	force("clusters a=1; assignments old=101")
	d.give(Clusters, "2", "c2", cluster("a", 2, "new"))
	// Envoy answers when the cluster is warm, this client at once.
	for a = d.next(Assignments); !slices.Contains(append(a.names, a.subscribe...), "new"); a = d.next(Assignments) {
	}
	force("clusters a=1; assignments old=101")
	d.give(Assignments, "2", "e2", assignment("new", 102))
	a = d.next(Clusters)
	d.expect(a.nonce == "c2" && a.fault == "", "accepted", a)
	force("clusters a=2; assignments new=102")
}

// bootstrap makes Envoy ask a server for clusters.
func bootstrap(server Server, admin netip.AddrPort, form string) []byte {
	address := func(a netip.AddrPort) string {
		return fmt.Sprintf(`{"socket_address": {"address": %q, "port_value": %d}}`, a.Addr(), a.Port())
	}
	api := "GRPC"
	if strings.HasPrefix(form, "delta") {
		api = "DELTA_GRPC"
	}
	return fmt.Appendf(nil, `{
		"node": {"id": "test", "cluster": "test"}, "admin": {"address": %s},
		"dynamic_resources": {
			"ads_config": {"api_type": %q, "transport_api_version": "V3", "grpc_services": [{"envoy_grpc": {"cluster_name": "control"}}]},
			"cds_config": {"ads": {}, "resource_api_version": "V3"}
		},
		"static_resources": {"clusters": [{
			"name": "control", "load_assignment": {"cluster_name": "control", "endpoints": [{"lb_endpoints": [{"endpoint": {"address": %s}}]}]},
			"typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
				"@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions", "explicit_http_config": {"http2_protocol_options": {}}
			}}
		}]}
	}`, address(admin), api, address(netip.MustParseAddrPort(server.Address)))
}

// awaitEnvoy waits until Envoy has these clusters and assignments.
func awaitEnvoy(t *testing.T, admin netip.AddrPort, want string) {
	deadline, got := time.Now().Add(patience), ""
	for got != want {
		if time.Now().After(deadline) {
			t.Errorf("Envoy has %q, want %q", got, want)
			return
		}
		time.Sleep(20 * time.Millisecond)
		got = envoyHas(t, admin)
	}
}

// envoyHas is what Envoy has in force, as text shows it.
func envoyHas(t *testing.T, admin netip.AddrPort) string {
	r, err := http.Get(fmt.Sprintf("http://%s/config_dump?include_eds", admin))
	if err != nil {
		return err.Error()
	}
	defer r.Body.Close()
	var dump struct {
		Configs []struct {
			Clusters []struct {
				Cluster struct {
					Name    string
					Content string `json:"alt_stat_name"`
				}
			} `json:"dynamic_active_clusters"`
			Endpoints []struct {
				Config struct {
					Name   string `json:"cluster_name"`
					Policy struct {
						Factor int `json:"overprovisioning_factor"`
					}
				} `json:"endpoint_config"`
			} `json:"dynamic_endpoint_configs"`
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&dump); err != nil {
		t.Error(err)
	}
	var clusters, assignments []string
	for _, c := range dump.Configs {
		for _, one := range c.Clusters {
			clusters = append(clusters, one.Cluster.Name+"="+one.Cluster.Content)
		}
		for _, one := range c.Endpoints {
			if one.Config.Policy.Factor == 140 {
				continue // the default: of a cluster without an assignment
			}
			assignments = append(assignments, fmt.Sprintf("%s=%d", one.Config.Name, one.Config.Policy.Factor))
		}
	}
	slices.Sort(clusters)
	slices.Sort(assignments)
	text := "clusters " + strings.Join(clusters, " ")
	if len(assignments) > 0 {
		text += "; assignments " + strings.Join(assignments, " ")
	}
	return text
}

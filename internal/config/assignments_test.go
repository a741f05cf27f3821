// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"

	"github.com/xlb-project/xlb/test/suite"
)

func TestChangedAssignmentsComeToWhatAllResourcesComeTo(t *testing.T) {
	seed := suite.Seed(t)
	w := rand.New(rand.NewPCG(seed, 0))
	pack := func(kind Kind, text string) *anypb.Any {
		m := kind.newMessage()
		plain, err := yaml.YAMLToJSON([]byte(text))
		if err == nil {
			err = protojson.Unmarshal(plain, m)
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := anypb.New(m)
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	b := dynamicBootstrap(t)
	r := Resources{Clusters: map[string]*anypb.Any{}, Assignments: map[string]*anypb.Any{}, Listeners: map[string]*anypb.Any{}, Routes: map[string]*anypb.Any{}}
	assign := func(name string) {
		if w.IntN(6) == 0 {
			delete(r.Assignments, name)
			return
		}
		r.Assignments[name] = pack(Assignments, fmt.Sprintf("{cluster_name: %s, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.1.1.%d, port_value: 80}}}}]}]}", name, 1+w.IntN(200)))
	}
	name := func() string { return fmt.Sprintf("c%d", w.IntN(8)) }
	told := 0
	for range 400 {
		var changed []string
		switch w.IntN(10) {
		case 0: // another cluster, with endpoints of its own or another's
			c := name()
			r.Clusters[c] = pack(Clusters, fmt.Sprintf("{name: %s, type: EDS, eds_cluster_config: {service_name: %s, eds_config: {ads: {}}}}", c, name()))
		case 1:
			delete(r.Clusters, name())
		case 2:
			r.Listeners["web"] = pack(Listeners, httpListener("web", "127.0.0.1", rdsManager))
			r.Routes["table"] = pack(Routes, fmt.Sprintf("{name: table, virtual_hosts: [{name: v, domains: ['*'], routes: [{match: {path: /}, route: {cluster: %s}}]}]}", name()))
		case 3: // for a cluster that wants a port for many
			c := name()
			r.Clusters[c] = pack(Clusters, fmt.Sprintf("{name: %s, type: EDS, eds_cluster_config: {eds_config: {ads: {}}}, lb_policy: RING_HASH}", c))
		default:
			for range 1 + w.IntN(2) {
				c := name()
				assign(c)
				changed = append(changed, c)
			}
		}
		var got string
		if changed == nil {
			cfg, err := b.Assemble(r)
			got = fmt.Sprintf("%s %v", asJSON(t, cfg), err)
		} else {
			before := b.last
			cfg, err := b.AssembleAssignments(r, changed)
			got = fmt.Sprintf("%s %v", asJSON(t, cfg), err)
			if before != nil && b.last == before {
				told++
			}
		}
		cfg, err := dynamicBootstrap(t).Assemble(r)
		if want := fmt.Sprintf("%s %v", asJSON(t, cfg), err); got != want {
			t.Fatalf("after %v have changed:\n%s\nwant\n%s", changed, got, want)
		}
	}
	if told < 100 {
		t.Errorf("%d changes took the short way, want more", told)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"math/rand/v2"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/test/suite"
)

// TestViewsThatHaveGoneMeanNoCluster has views come and go while they share clusters: the names of one that has gone are no cluster's, and behind the last one nothing is kept.
func TestViewsThatHaveGoneMeanNoCluster(t *testing.T) {
	seed := suite.Seed(t)
	names := []string{"a", "b", "c"}
	returned := 0
	for round := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, round))
		w := newWorld(t, 6)
		w.say(0, map[string]uint16{})
		w.merge()
		for range 80 {
			v := 1 + random.IntN(5)
			switch random.IntN(3) {
			case 0:
				w.parts[v] = nil
			default:
				ports := map[string]uint16{}
				for _, name := range names {
					if port := uint16(random.IntN(3)); port > 0 {
						ports[name] = port
					}
				}
				w.say(v, ports)
			}
			if random.IntN(5) == 0 {
				w.m.Merge(w.parts, w.now) // it cannot be put in force
				continue
			}
			w.merge()
			w.now = w.now.Add(patience / 3)
			for v := range w.parts {
				for _, name := range names {
					_, is := clustersIn(w.parts[v])[name]
					if got := w.port(v, name); (got != 0) != is {
						t.Fatalf("round %d: view %d is there %t, says %s %t, and has port %d, key %v", round, v, w.parts[v] != nil, name, is, got, w.key(v, name))
					}
				}
			}
			for _, c := range w.got.Config.Clusters {
				if c.Key().View != c.View.Name {
					returned++
				}
			}
		}
		for v := 1; v < len(w.parts); v++ {
			w.parts[v] = nil
		}
		w.merge()
		if len(w.got.clusters) != 0 || len(w.got.waiting) != 0 || len(w.got.Config.Clusters) != 0 || len(w.got.views) != 1 || len(w.got.Config.Names) != 0 {
			t.Fatalf("round %d: something is left: %d names, %d waiting, %d views, %v", round, len(w.got.clusters), len(w.got.waiting), len(w.got.views), w.got.Config.Names)
		}
	}
	if returned == 0 {
		t.Error("no cluster had another view's key")
	}
}

func clustersIn(p *model.Config) map[string]uint16 {
	out := map[string]uint16{}
	if p != nil {
		for _, c := range p.Clusters {
			out[c.Name] = c.Endpoints[0].Address.Port()
		}
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0

package generation_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/test/generationtest"
	"github.com/xlb-project/xlb/test/suite"
)

// everything is the generation that knows of no one before it.
func everything(k *generationtest.Kernel, cfg *model.Config) *generation.Generation {
	changes := reconcile.Changes{Endpoints: k.Endpoints(), Clusters: true}
	return generation.Empty().Next(&generation.Input{Config: cfg, Changes: &changes, Kernel: k})
}

func TestGenerationsFollowChanges(t *testing.T) {
	seed := suite.Seed(t)
	w := rand.New(rand.NewPCG(seed, 0))
	cfg := generationtest.PortsOf(1, 1, 2)
	kernel := generationtest.NewKernel()
	now := kernel.Next(t, generation.Empty(), cfg)
	compiler := compile.NewCompiler()
	for range 300 {
		next := *cfg
		next.Clusters = slices.Clone(cfg.Clusters)
		c := &model.Cluster{Name: fmt.Sprintf("more%d", w.IntN(3))}
		i := slices.IndexFunc(next.Clusters, func(one *model.Cluster) bool { return one.Name == c.Name })
		if w.IntN(3) == 0 {
			i, c.Name = 0, "web"
		}
		for port := range uint16(6) {
			if w.IntN(2) == 0 {
				c.Endpoints = append(c.Endpoints, model.Endpoint{Address: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 1+port), Weight: 1})
			}
		}
		switch {
		case i < 0:
			next.Clusters = append(next.Clusters, c)
		case i > 0 && w.IntN(4) == 0:
			next.Clusters = slices.Delete(next.Clusters, i, i+1)
		default:
			next.Clusters[i] = c
		}
		cfg = &next
		image, notes := compiler.Compile(cfg)
		if err := kernel.Switch(image); err != nil {
			t.Fatal(err)
		}
		changes := kernel.Changed()
		now = now.Next(&generation.Input{Config: cfg, Notes: notes, Changes: &changes, Kernel: kernel, At: time.Now()})
		if diff := gocmp.Diff(everything(kernel, cfg).Contents(), now.Contents(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("generation (-want +got):\n%s", diff)
		}
		for key, got := range now.ClustersByKey() {
			if j := slices.IndexFunc(cfg.Clusters, func(one *model.Cluster) bool { return one.Key() == key }); j < 0 || cfg.Clusters[j] != got {
				t.Fatalf("%s is not the one in force", key)
			}
		}
		if got, want := len(now.ClustersByKey()), len(cfg.Clusters); got != want {
			t.Fatalf("%d clusters, want %d", got, want)
		}
		for index, e := range generationtest.Endpoints(now) {
			if e.Gone && w.IntN(2) == 0 {
				kernel.ReleaseEndpoint(index)
			}
		}
		if err := kernel.Reclaim(); err != nil {
			t.Fatal(err)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/test/suite"
)

// contents is all that a directory finds.
func (d *directory) contents() (list []string) {
	for index, e := range d.each() {
		list = append(list, fmt.Sprintf("%d: %s %s gone %t", index, e.Cluster, e.Address, e.Gone))
	}
	for name, p := range d.clusters {
		list = append(list, fmt.Sprintf("%s: %d %v", name, p.index, p.named()))
		for _, e := range p.endpoints {
			list = append(list, fmt.Sprintf("%s has %d", name, e.Index))
		}
	}
	slices.Sort(list)
	return list
}

// everything is the directory that knows of no one before it.
func (b *balancing) everything(cfg *model.Config) *directory {
	return b.newDirectory(nil, cfg, &reconcile.Changes{Endpoints: b.reconcil.Endpoints(), Clusters: true})
}

func TestDirectoriesFollowChanges(t *testing.T) {
	seed := suite.Seed(t)
	w := rand.New(rand.NewPCG(seed, 0))
	cfg := portsOf(1, 1, 2)
	b := newBalancing(t, cfg)
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
		if _, err := b.switchTo(cfg, image, nil, notes); err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(b.everything(cfg).contents(), b.directory.Load().contents(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("directory (-want +got):\n%s", diff)
		}
		for name, got := range b.current.Load().clusters {
			if j := slices.IndexFunc(cfg.Clusters, func(one *model.Cluster) bool { return one.Name == name }); j < 0 || cfg.Clusters[j] != got {
				t.Fatalf("cluster %s is not the one in force", name)
			}
		}
		if got, want := len(b.current.Load().clusters), len(cfg.Clusters); got != want {
			t.Fatalf("%d clusters, want %d", got, want)
		}
		for index, e := range b.directory.Load().each() {
			if e.Gone && w.IntN(2) == 0 {
				b.reconcil.ReleaseEndpoint(index)
			}
		}
		if err := b.reconcil.Reclaim(); err != nil {
			t.Fatal(err)
		}
	}
}

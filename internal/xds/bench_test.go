// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
)

// One assignment of ten thousand changes: to judge and take it, and to make a snapshot.
func BenchmarkOneOfMany(b *testing.B) {
	const many = 10000
	c := New(Config{Check: check})
	var clusters, assignments []proto.Message
	for i := range many {
		name := fmt.Sprintf("outbound|8080||service-%05d.namespace.svc.cluster.local", i)
		clusters, assignments = append(clusters, cluster(name, 1)), append(assignments, assignment(name, 1))
	}
	give := func(kind Kind, resources ...proto.Message) {
		r := &response{typeURL: kind.TypeURL()}
		for _, m := range resources {
			r.resources = append(r.resources, ofResource(named(m, "1", 0)))
		}
		if err := c.take(kind, r, 0); err != nil {
			b.Fatal(err)
		}
	}
	give(Clusters, clusters...)
	give(Assignments, assignments...)
	last, _ := c.state.snapshot(Snapshot{})
	name := last.Clusters["outbound|8080||service-00007.namespace.svc.cluster.local"].Name
	content := 1
	for b.Loop() {
		content++
		give(Assignments, assignment(name, content))
		next, differs := c.state.snapshot(last)
		if !differs {
			b.Fatal("no difference")
		}
		last = next
	}
}

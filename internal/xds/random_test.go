// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"
)

var seeds = flag.Int("seeds", 20, "random servers per form of the protocol")

// Servers that say all there is to say in any order and in any portions, that repeat themselves, send what nobody asked for or what is bad, and
// end streams at any time: in the end the client has what they have.
func TestAnyOrder(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		for seed := range *seeds {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				w := newWorld(uint64(seed))
				o := observe(t, Config{Servers: []Server{serve(t, w)}, Delta: delta})
				for range 30 {
					w.mutate(true)
					time.Sleep(time.Duration(w.below(3000)) * time.Microsecond)
				}
				w.mutate(false)
				o.await(w.expected())
				for _, state := range mustSeen(o) {
					if strings.Contains(state, "=-") {
						t.Errorf("bad content in state %q", state)
					}
				}
			})
		}
	})
}

func mustSeen(o *observed) []string {
	states, _ := o.seen()
	return states
}

// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
)

func TestEntriesOfAnchorsTellWhatADaemonDoes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ports maps.AnchorPorts
		want  Service
	}{
		{"the daemon's own", maps.AnchorPorts{Port4: [len(maps.AnchorPorts{}.Port4)]uint16{1: 4711}}, Served},
		{"another, without IPv4", maps.AnchorPorts{Port6: [len(maps.AnchorPorts{}.Port6)]uint16{4711}, Workload: 3}, Served},
		{"the daemon's own, left alone", maps.AnchorPorts{}, LeftAlone},
		{"another, released", maps.AnchorPorts{Workload: 3}, Released},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := serviceBy(&tt.ports); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

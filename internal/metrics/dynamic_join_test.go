// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"testing"
)

func TestDynamicStatisticsOfViewsAreJoined(t *testing.T) {
	const updates, time, version, connected = "xlb.dynamic.updates", "listener_manager.lds.update_time", "listener_manager.lds.version", "control_plane.connected_state"
	for _, tt := range []struct {
		name  string
		views []map[string]uint64
		want  map[string]uint64
	}{
		{"none has any", []map[string]uint64{nil, nil}, nil},
		{"one has some", []map[string]uint64{nil, {updates: 3, connected: 1}, nil}, map[string]uint64{updates: 3, connected: 1}},
		{"sums", []map[string]uint64{{updates: 3}, {updates: 4}}, map[string]uint64{updates: 7}},
		{"all are connected", []map[string]uint64{{connected: 1}, {updates: 1}, {connected: 1}}, map[string]uint64{connected: 1, updates: 1}},
		{"one is not connected", []map[string]uint64{{connected: 1}, {connected: 0}, {connected: 1}}, map[string]uint64{connected: 0}},
		{"the version that came last, in the second", []map[string]uint64{{time: 10, version: 7}, {time: 11, version: 5}, {time: 9, version: 6}}, map[string]uint64{time: 11, version: 5}},
		{"the version that came last, in the first", []map[string]uint64{{time: 12, version: 7}, {time: 11, version: 8}}, map[string]uint64{time: 12, version: 7}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var before []map[string]uint64
			for _, stats := range tt.views {
				before = append(before, maps.Clone(stats))
			}
			if got := JoinDynamic(tt.views); !maps.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			for i := range before {
				if !maps.Equal(before[i], tt.views[i]) {
					t.Errorf("the statistics of view %d have become %v", i, tt.views[i])
				}
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package generation

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
)

// generationsOf has these tables come one after the other, each in the place of the one before. The listener of table i has number i+1.
func generationsOf(now time.Time, tables ...*model.RouteTable) *Generation {
	g := Empty()
	for i, table := range tables {
		name := fmt.Sprint("l", i)
		g = g.with(now.Add(time.Duration(i)*time.Millisecond), numbered{name: uint32(i + 1)}, &model.Listener{Name: name, Routes: table})
	}
	return g
}

// tableOf has so many routes.
func tableOf(routes int) *model.RouteTable {
	return &model.RouteTable{VirtualHosts: []*model.VirtualHost{{Routes: slices.Repeat([]*model.Route{{}}, routes)}}}
}

// has lists the numbers of listeners that are known.
func (g *Generation) has(most int) (numbers []int) {
	for n := 1; n <= most; n++ {
		if g.HasListener(ListenerID(uint32(n))) {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// Views of templates may come and go by thousands within the time that the routes of each are kept. Those that go together are kept together.
func TestManyRemovedListenersLoseTheirRoutesBeforeTheirTime(t *testing.T) {
	const excess, all = 5, maxDeparted + 5
	kernel, list := numbered{}, []*model.Listener(nil)
	for i := range all {
		name := fmt.Sprint("l", i)
		kernel[name] = uint32(i + 1)
		list = append(list, &model.Listener{Name: name, Routes: &model.RouteTable{}})
	}
	now := time.Now()
	first := Empty().with(now, kernel, list...)
	if got := len(first.with(now, numbered{}).has(all)); got != all {
		t.Errorf("of %d listeners in force that go %d are known", all, got)
	}
	for i := range excess {
		delete(kernel, fmt.Sprint("l", i))
	}
	g := first.with(now, kernel, list[excess:]...).with(now.Add(time.Second), numbered{})
	numbers := g.has(all)
	if len(numbers) != maxDeparted || numbers[0] != excess+1 || g.Forgotten() != excess {
		t.Errorf("%d listeners are known, the oldest is %d, %d are forgotten; want %d, %d, %d", len(numbers), numbers[0], g.Forgotten(), maxDeparted, excess+1, excess)
	}
	if !g.Closes(ListenerID(1)) || !g.Closes(ListenerID(excess+1)) || first.Closes(ListenerID(1)) {
		t.Error("connections to removed listeners close, whether their routes are kept or not, and no others")
	}
}

func TestManyRoutesOfRemovedListenersAreNotKept(t *testing.T) {
	const half = maxDepartedRoutes / 2
	shared := tableOf(half)
	tests := []struct {
		name   string
		tables []*model.RouteTable
		want   []int
	}{
		{"as many as may be", []*model.RouteTable{tableOf(half), tableOf(half), tableOf(1)}, []int{1, 2, 3}},
		{"one more", []*model.RouteTable{tableOf(half), tableOf(half + 1), tableOf(1)}, []int{2, 3}},
		{"one table counts once", []*model.RouteTable{shared, shared, shared, tableOf(half), tableOf(1)}, []int{1, 2, 3, 4, 5}},
		// It was in force until now.
		{"a large one", []*model.RouteTable{tableOf(1), tableOf(3 * half), tableOf(1)}, []int{2, 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := generationsOf(time.Now(), tt.tables...)
			if got := g.has(len(tt.tables)); !slices.Equal(got, tt.want) {
				t.Errorf("listeners %v are known, want %v", got, tt.want)
			}
			if got := int(g.Forgotten()); got != len(tt.tables)-len(tt.want) {
				t.Errorf("%d are forgotten, want %d", got, len(tt.tables)-len(tt.want))
			}
		})
	}
}

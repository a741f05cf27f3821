// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"testing"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/workload"
)

// named is what views with the numbers 1 and 2 are called.
func named(number uint32) string { return map[uint32]string{1: "shop", 2: "bank"}[number] }

func TestWorkloadsAreShownWithTheirViews(t *testing.T) {
	for _, tt := range []struct {
		name   string
		names  func(uint32) string
		number uint32
		want   string
	}{
		{"the shared one", named, 0, ""},
		{"without views", nil, 0, ""},
		{"its own", named, 2, "bank"},
		{"one that has gone", named, 7, "number 7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			info := workload.Info{ID: 3, Inode: 12, View: tt.number, State: workload.Served}
			s := &Status{cfg: Config{ViewName: tt.names, Workloads: fixed{info}}}
			row := s.workloadRow(&info, nil)
			if row.View != tt.want {
				t.Errorf("row: got %q, want %q", row.View, tt.want)
			}
			if got := measuredWorkload(&row, map[uint32]bool{}).View; got != tt.want {
				t.Errorf("metrics: got %q, want %q", got, tt.want)
			}
			if got := s.explainedWorkload(12).View; got != tt.want {
				t.Errorf("account: got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestConnectionsAreShownWithTheViewOfTheirListener(t *testing.T) {
	got := connectionRow(&anchor.Info{}, model.ListenerName{View: "shop", Name: "web"})
	if got.View != "shop" || got.Listener != "web" || connectionRow(&anchor.Info{}, model.SharedListener("web")).View != "" {
		t.Errorf("got %+v", got)
	}
}

func TestViewsAreThoseOfTheFileAndOfTheConfiguration(t *testing.T) {
	cfg := &model.Config{Listeners: []*model.Listener{{Name: "web"}, {Name: "web", View: model.View{Number: 2, Name: "shop"}}}}
	s := &Status{}
	if got := s.views(cfg); !slices.Equal(got, []string{"shop"}) {
		t.Errorf("without a file: %q", got)
	}
	s.cfg.Views = func() []string { return []string{"shop", "bank"} }
	if got := s.views(cfg); !slices.Equal(got, []string{"bank", "shop"}) {
		t.Errorf("with a file: %q", got)
	}
}

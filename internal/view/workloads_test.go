// SPDX-License-Identifier: Apache-2.0

package view

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/workload"
)

func TestRowsOfWorkloadsCountTheirOwnConnections(t *testing.T) {
	open := openByWorkload([]anchor.Info{{Workload: 2}, {Workload: workload.Host}, {Workload: 2}, {Workload: workload.Host, Bound: true}})
	for _, tt := range []struct {
		name string
		info workload.Info
		want admin.Workload
	}{
		{"the daemon's own", workload.Info{Netns: 1, Inode: 11, State: workload.Served}, admin.Workload{Netns: 11, Cookie: 1, State: "served", Connections: 1}},
		{"with connections", workload.Info{ID: 2, Netns: 5, Inode: 12, PID: 7, Path: "/run/netns/web", State: workload.Leaving},
			admin.Workload{ID: 2, Netns: 12, Cookie: 5, PID: 7, Path: "/run/netns/web", State: "leaving", Connections: 2}},
		{"without", workload.Info{ID: 3, Netns: 6, Inode: 13, State: workload.Released}, admin.Workload{ID: 3, Netns: 13, Cookie: 6, State: "released"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, workloadRow(&tt.info, open)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorsOfWorkloadsAreThoseOfTheAdminAPI(t *testing.T) {
	failure := errors.New("no room")
	for _, tt := range []struct {
		name      string
		err, want error
	}{
		{"own", fmt.Errorf("release: %w", workload.ErrOwn), admin.ErrOwnWorkload},
		{"unknown", fmt.Errorf("join: %w", workload.ErrUnknown), admin.ErrUnknownWorkload},
		{"a failure", failure, failure},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := workloadError(tt.err); !errors.Is(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

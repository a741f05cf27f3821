// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/explain"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/nri"
	"github.com/xlb-project/xlb/internal/pod"
	"github.com/xlb-project/xlb/internal/workload"
)

func TestRowsOfWorkloadsCountTheirOwnConnections(t *testing.T) {
	open := openByWorkload([]anchor.Info{{Workload: 2}, {Workload: workload.Host}, {Workload: 2}, {Workload: workload.Host, Bound: true}})
	for _, tt := range []struct {
		name string
		info workload.Info
		want admin.Workload
	}{
		{"the daemon's own", workload.Info{Netns: 1, Inode: 11, State: workload.Served}, admin.Workload{Name: "host", Netns: 11, Cookie: 1, State: "served", Connections: 1}},
		{"with connections", workload.Info{ID: 2, Netns: 5, Inode: 12, PID: 7, Path: "/run/netns/web", State: workload.Leaving},
			admin.Workload{ID: 2, Name: "web", Netns: 12, Cookie: 5, PID: 7, Path: "/run/netns/web", State: "leaving", Connections: 2}},
		{"without", workload.Info{ID: 3, Netns: 6, Inode: 13, State: workload.Released}, admin.Workload{ID: 3, Name: "netns 13", Netns: 13, Cookie: 6, State: "released"}},
		{"of a pod", workload.Info{ID: 4, Netns: 7, Inode: 14, State: workload.Excluded, Why: "label a: b", Path: "/run/netns/cni-1", Identity: pod.Identity{Runtime: "containerd", Container: "c0ffee", UID: "0f3b", Namespace: "shop", Name: "web-1"}},
			admin.Workload{ID: 4, Name: "shop/web-1", Netns: 14, Cookie: 7, Path: "/run/netns/cni-1", Runtime: "containerd", Container: "c0ffee", PodUID: "0f3b", PodNamespace: "shop", Pod: "web-1", State: "excluded", Why: "label a: b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, new(Status).workloadRow(&tt.info, open)); diff != "" {
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

// fixed are workloads that a test sets.
type fixed []workload.Info

func (f fixed) Counts() workload.Counts { return workload.Counts{Excluded: 3} }

func (f fixed) List() []workload.Info { return f }

func (fixed) Release(uint64) (workload.Info, error) { return workload.Info{}, workload.ErrUnknown }

func (fixed) Join(uint64) (workload.Info, error) { return workload.Info{}, workload.ErrUnknown }

func TestNamesOfWorkloadsAreTheBestThatAreKnown(t *testing.T) {
	is := pod.Identity{Runtime: "docker", Container: "c0ffeec0ffeec0ffee"}
	for _, tt := range []struct {
		name string
		info workload.Info
		want string
	}{
		{"the daemon's own", workload.Info{Inode: 11, Path: "/run/netns/own", Identity: is}, "host"},
		{"a pod's", workload.Info{ID: 1, Path: "/run/netns/web", Identity: pod.Identity{UID: "0f3b", Namespace: "shop", Name: "web-1"}}, "shop/web-1"},
		{"a pod's without a name", workload.Info{ID: 1, Path: "/run/netns/web", Identity: pod.Identity{UID: "0f3b"}}, "pod 0f3b"},
		{"a container's", workload.Info{ID: 1, Path: "/run/netns/web", Identity: is}, "docker c0ffeec0ffee"},
		{"one with a file", workload.Info{ID: 1, Inode: 12, Path: "/run/netns/web"}, "web"},
		{"one with a number", workload.Info{ID: 1, Inode: 12}, "netns 12"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := namesOf([]workload.Info{tt.info})[tt.info.ID]; got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestExplainKnowsTheClientsWorkload(t *testing.T) {
	s := &Status{cfg: Config{Workloads: fixed{
		{Inode: 11, State: workload.Served},
		{ID: 2, Inode: 12, State: workload.Excluded, Why: "label a: b", Identity: pod.Identity{Namespace: "shop", Name: "web-1"}},
		{ID: 3, Inode: 13, State: workload.Leaving},
	}}}
	number := func(id uint32) *uint32 { return &id }
	for _, tt := range []struct {
		name  string
		netns uint64
		want  *explain.Workload
	}{
		{"served", 11, &explain.Workload{Netns: 11, ID: number(0), Name: "host", State: "served", Balanced: true}},
		{"excluded", 12, &explain.Workload{Netns: 12, ID: number(2), Name: "shop/web-1", State: "excluded", Why: "label a: b"}},
		{"leaving", 13, &explain.Workload{Netns: 13, ID: number(3), Name: "netns 13", State: "leaving"}},
		{"not known", 14, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, s.explainedWorkload(tt.netns)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRuntimeIsMeasuredWhereOneIsAsked(t *testing.T) {
	s := &Status{cfg: Config{Workloads: fixed{}}}
	if got := (measured{s}).NRI(); got != nil {
		t.Errorf("without a client: got %+v", got)
	}
	s.cfg.NRI = func() nri.State {
		return nri.State{Connected: true, Runtime: "containerd 2.3.7", Pods: 5, Late: 1, Failed: 2}
	}
	want := metrics.NRI{Connected: true, Pods: 5, Late: 1, Failed: 2}
	if got := (measured{s}).NRI(); got == nil || *got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := (measured{s}).Workloads().Excluded; got != 3 {
		t.Errorf("%d were excluded, want 3", got)
	}
}

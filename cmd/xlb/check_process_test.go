// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/internal/datapath"
	"github.com/xlb-project/xlb/internal/pod"
)

func TestCheckSaysWhyANamespaceIsNotServed(t *testing.T) {
	for _, tt := range []struct {
		name           string
		service        datapath.Service
		status         check.Status
		detail, remedy string
	}{
		{"served", datapath.Served, check.OK, "serves it", ""},
		{"released", datapath.Released, check.Missing, "an operator has released it, or the labels of its pod exclude it", "xlb join --pid 4711"},
		{"the daemon's own", datapath.LeftAlone, check.Missing, "--namespaces=others", "--namespaces=all"},
		{"not joined", datapath.Unknown, check.Missing, "or not yet", "connect once"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := namespaceOf(&check.Process{PID: 4711}, tt.service)
			if got.Status != tt.status || !strings.Contains(got.Detail, tt.detail) || !strings.Contains(got.Remedy, tt.remedy) || (got.Remedy == "") != (tt.remedy == "") {
				t.Errorf("got %+v, want %s, %q and %q", got, tt.status, tt.detail, tt.remedy)
			}
		})
	}
}

func TestCheckNamesTheContainer(t *testing.T) {
	const uid = "0f3b7d52-6a1e-4c8b-9d2f-1a2b3c4d5e6f"
	for _, tt := range []struct {
		name string
		is   pod.Identity
		want []string
	}{
		{"none", pod.Identity{}, nil},
		{"of a pod", pod.Identity{Runtime: "containerd", Container: "c0ffee00c0ffee00", UID: uid}, []string{"containerd c0ffee00c0ffee00, pod " + uid}},
		{"of an unknown runtime", pod.Identity{Container: "c0ffee"}, []string{"c0ffee"}},
		{"a pod's, outside of containers", pod.Identity{UID: uid}, []string{"pod " + uid}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, r := range containerRow(&check.Process{Container: tt.is}) {
				if r.Name != "container" || r.Status != check.OK || r.Remedy != "" {
					t.Errorf("row %+v", r)
				}
				got = append(got, r.Detail)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/internal/datapath"
)

func TestCheckSaysWhyANamespaceIsNotServed(t *testing.T) {
	for _, tt := range []struct {
		name           string
		service        datapath.Service
		status         check.Status
		detail, remedy string
	}{
		{"served", datapath.Served, check.OK, "serves it", ""},
		{"released", datapath.Released, check.Missing, "an operator has released it", "xlb join --pid 4711"},
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

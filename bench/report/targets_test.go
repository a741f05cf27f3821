// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/figures"
	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/peers"
)

func TestTargetsNeedProof(t *testing.T) {
	targets := []target{
		{lab.SameHost, cases.KeptAlive(32), "requests/s", rateToDirect, 1.2, false},
		{lab.SameHost, cases.KeptAlive(32), "p50", p50ToDirect, 0.9, true},
		{lab.CrossHost, cases.KeptAlive(32), "requests/s", rateToDirect, 0.5, false},
	}
	withErrors := turnOf(peers.XLB, 130, 40)
	withErrors.Errors = 1
	for _, tt := range []struct {
		name string
		xlb  figures.Measurement
		want []bool
	}{
		{"both met", turnOf(peers.XLB, 120, 45), []bool{true, true, false}},
		{"too slow", turnOf(peers.XLB, 119, 45), []bool{false, true, false}},
		{"too late", turnOf(peers.XLB, 120, 46), []bool{true, false, false}},
		{"fast but with errors", withErrors, []bool{false, false, false}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			verdicts := judge(figures.Summarise([]figures.Measurement{turnOf(peers.Direct, 100, 50), tt.xlb}), targets)
			var got []bool
			for _, v := range verdicts {
				got = append(got, v.Met)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("met (-want +got):\n%s", diff)
			}
			if verdicts[2].Measured != nil {
				t.Errorf("cross host: measured = %v without a measurement", *verdicts[2].Measured)
			}
		})
	}
}

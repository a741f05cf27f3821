// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/bench/figures"
)

func TestProgramsOfOneNameAreOne(t *testing.T) {
	before := map[ebpf.ProgramID]account{1: {"send", 10, 100, 7, 70}, 2: {"send", 0, 0, 9, 60}, 3: {"called", 5, 5, 300, 2000}}
	after := map[ebpf.ProgramID]account{
		1: {"send", 20, 100 + 20*time.Nanosecond, 7, 70}, 2: {"send", 10, 30 * time.Nanosecond, 9, 60}, 3: {"called", 5, 5, 300, 2000}, 4: {"verdict", 5, 100, 0, 0},
	}
	want := []figures.ProgramCost{
		{Name: "verdict", Runs: 0.5, NSPerRun: 20, NSPerRequest: 10},
		{Name: "send", Runs: 2, NSPerRun: 2.5, NSPerRequest: 5, Instructions: 9, Bytes: 70},
		{Name: "called", Instructions: 300, Bytes: 2000},
	}
	if diff := cmp.Diff(want, costsOf(before, after, 10)); diff != "" {
		t.Errorf("costs (-want +got):\n%s", diff)
	}
}

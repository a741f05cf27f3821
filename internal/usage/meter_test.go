// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/workload"
)

func TestAMeterCountsUntilItsEntryIsForgotten(t *testing.T) {
	to := Destination{3, "a"}
	tests := []struct {
		name   string
		forget func(l *Ledger)
	}{
		{"the workload leaves", func(l *Ledger) { l.Leave(3); l.Join(3, 3) }},
		{"the cluster has gone", func(l *Ledger) { l.Sweep(func(Destination) bool { return false }) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := NewLedger(9)
			l.Join(3, 3)
			m := l.Meter(to)
			m.Add(Traffic{Requests: 1, RequestBytes: 2, ResponseBytes: 3, SlowWork: 4, ProgramTime: 5})
			m.Worked(time.Second)
			l.mustBe(t, nil, Sum{to: {1, 2, 3, time.Second + 4, 5}})
			if !m.Counts() || l.Meter(to) != m {
				t.Error("the meter of an entry is another one, or does not count")
			}
			tt.forget(l)
			m.Worked(time.Second)
			l.mustBe(t, nil, Sum{})
			if m.Counts() {
				t.Error("a forgotten meter counts")
			}
			next := l.Meter(to)
			next.Worked(time.Second)
			if l.mustBe(t, nil, Sum{to: {SlowWork: time.Second}}); next == m || !next.Counts() {
				t.Error("the next meter is the forgotten one, or does not count")
			}
		})
	}
}

func TestWhatHasNoEntryHasNoMeterOfItsOwn(t *testing.T) {
	l := NewLedger(2)
	l.Join(3, 3)
	if m := l.Meter(Destination{4, "a"}); m != nil || m.Counts() {
		t.Error("a workload that is no member has a meter")
	}
	var none *Ledger
	none.Meter(Destination{workload.Host, "a"}).Worked(time.Second) // nothing happens
	none.Meter(Destination{workload.Host, "a"}).Add(one)

	for _, cluster := range []string{"a", "b", "c", "d"} {
		l.Meter(Destination{3, cluster}).Worked(time.Second)
	}
	common := l.With(nil).Sum()[Destination{3, ""}].SlowWork
	if common == 0 || l.Meter(Destination{3, "c"}) != l.Meter(Destination{3, ""}) {
		t.Errorf("%s count in common, want that of clusters without an entry", common)
	}
	if own := l.With(nil).Sum()[Destination{3, "a"}].SlowWork; own != time.Second {
		t.Errorf("the cluster with an entry: %s, want 1s", own)
	}
}

// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/xlb-project/xlb/internal/workload"
)

var one = Traffic{Requests: 1, RequestBytes: 10, ResponseBytes: 100}

func (l *Ledger) mustBe(t *testing.T, elsewhere Snapshot, want Sum) {
	t.Helper()
	if got := l.With(elsewhere).Sum(); !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

func TestTrafficCountsByWorkloadAndCluster(t *testing.T) {
	l := NewLedger(9)
	l.Join(3, 3)
	a, b, host := Destination{3, "a"}, Destination{3, "b"}, Destination{workload.Host, "a"}
	for _, to := range []Destination{a, a, b, host, {3, ""}} {
		l.Add(to, one)
	}
	two := Traffic{Requests: 2, RequestBytes: 20, ResponseBytes: 200}
	l.mustBe(t, nil, Sum{a: two, b: one, host: one, {3, ""}: one})
	l.mustBe(t, Snapshot{{b, one}, {Destination{4, "a"}, one}}, Sum{a: two, b: two, host: one, {3, ""}: one})
	if u := l.Usage(); u.Taken != 3 || u.By[3].Taken != 2 {
		t.Errorf("entries: %+v, want 2 of 3, and 1", u)
	}
}

func TestAWorkloadThatLeavesIsForgotten(t *testing.T) {
	l := NewLedger(9)
	l.Join(3, 3)
	l.Add(Destination{3, "a"}, one)
	l.Leave(3)
	l.Leave(3)
	l.Leave(workload.Host)
	l.Add(Destination{3, "a"}, one) // late
	l.Add(Destination{workload.Host, "a"}, one)
	l.mustBe(t, Snapshot{{Destination{3, "a"}, one}}, Sum{{workload.Host, "a"}: one})
	if u := l.Usage(); u.Taken != 1 || len(u.By) > 1 {
		t.Errorf("entries: %+v, want the host's", u)
	}
}

// One workload that has requests to any number of clusters has its part of the entries, and the others have theirs. What it gets no entry for counts in
// common, and stays there.
func TestClustersWithoutAnEntryCountInCommon(t *testing.T) {
	const size = 8
	l := NewLedger(size)
	l.Join(3, 3)
	for i := range 100 {
		l.Add(Destination{3, fmt.Sprint(i)}, one)
	}
	if got := l.With(nil).Sum()[Destination{3, ""}].Requests; got != 100-size/2 {
		t.Errorf("%d requests count in common, want all but %d", got, size/2)
	}
	l.Join(4, 4)
	l.Add(Destination{4, "a"}, one)
	if got := l.With(nil).Sum()[Destination{4, "a"}]; got != one {
		t.Errorf("another workload: %+v, want %+v", got, one)
	}
	l.Sweep(func(to Destination) bool { return to.Cluster == "1" })
	common := l.With(nil).Sum()[Destination{3, ""}].Requests
	l.Add(Destination{3, "99"}, one)
	if got := l.With(Snapshot{{Destination{3, "98"}, one}}).Sum()[Destination{3, ""}].Requests; got != common+2 {
		t.Errorf("%d requests count in common, want %d", got, common+2)
	}
	if got := l.With(nil).Sum(); got[Destination{3, "1"}] != one || got[Destination{3, "2"}] != (Traffic{}) || got[Destination{4, "a"}] != (Traffic{}) {
		t.Errorf("behind a sweep: %v, want cluster 1 alone, and what counts in common", got)
	}
}

// Whatever is counted elsewhere at a time counts once, and its entry is there before it is added. What has carried nothing yet takes none.
func TestWhatIsCountedElsewhereTakesItsEntry(t *testing.T) {
	l := NewLedger(1)
	a := Destination{workload.Host, "a"}
	l.mustBe(t, Snapshot{{Destination{workload.Host, "b"}, Traffic{}}, {a, one}}, Sum{a: one})
	l.Add(Destination{workload.Host, "b"}, one)
	l.Add(Destination{workload.Host, "a"}, one)
	l.mustBe(t, nil, Sum{{workload.Host, "a"}: one, {workload.Host, ""}: one})
}

func TestNothingIsLostOrLeftWhileWorkloadsComeAndGo(t *testing.T) {
	l := NewLedger(16)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for round := range 500 {
				id := workload.ID(1 + i)
				l.Join(id, id%4+1)
				for c := range 5 {
					l.Add(Destination{id, fmt.Sprint(c)}, one)
				}
				l.Add(Destination{workload.Host, "a"}, one)
				if round%7 == 0 {
					l.Sweep(func(to Destination) bool { return to.Cluster != "3" })
				}
				l.Leave(id)
			}
		})
	}
	all.Wait()
	l.mustBe(t, nil, Sum{{workload.Host, "a"}: {Requests: 4000, RequestBytes: 40_000, ResponseBytes: 400_000}})
	if u := l.Usage(); u.Taken != 1 {
		t.Errorf("entries: %+v, want the host's", u)
	}
}

func TestANilLedgerCountsNothing(t *testing.T) {
	var l *Ledger
	l.Add(Destination{}, one)
	if got := l.With(nil); len(got) != 0 {
		t.Errorf("counted %v", got)
	}
}

// SPDX-License-Identifier: Apache-2.0

package shares_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xlb-project/xlb/internal/shares"
)

// bubble runs a test on a clock of its own, and lets the watch of a scheduler see that no ticket waits.
func bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t)
		time.Sleep(2 * shares.Quantum)
	})
}

// crowd works for one tenant until its time is up: so many at once, each so long at a time.
type crowd struct {
	path    shares.Path
	workers int
	work    time.Duration
	pause   time.Duration
	// begins is when it comes.
	begins time.Duration
	worked atomic.Int64
}

// play has crowds share a scheduler for so long, on a clock of the test's own.
func play(t *testing.T, atWork int, d time.Duration, crowds ...*crowd) shares.Counts {
	t.Helper()
	var counts shares.Counts
	bubble(t, func(*testing.T) {
		scheduler := shares.NewScheduler(shares.Limits{AtWork: atWork, Waiting: 1000})
		over := time.Now().Add(d)
		var all sync.WaitGroup
		for _, c := range crowds {
			for range c.workers {
				all.Go(func() { c.run(scheduler, over) })
			}
		}
		all.Wait()
		counts = scheduler.Counts()
	})
	return counts
}

func (c *crowd) run(scheduler *shares.Scheduler, over time.Time) {
	ticket := scheduler.Ticket(c.path)
	time.Sleep(c.begins)
	for time.Now().Before(over) {
		ticket.Work()
		if time.Now().Before(over) {
			time.Sleep(c.work)
			c.worked.Add(int64(c.work))
		}
		ticket.Yield()
		time.Sleep(c.pause)
	}
}

// requireShare fails unless a crowd has worked for that part of the time of all, give or take a tenth of it.
func requireShare(t *testing.T, c *crowd, name string, want float64, all ...*crowd) {
	t.Helper()
	var sum int64
	for _, other := range all {
		sum += other.worked.Load()
	}
	got := float64(c.worked.Load()) / float64(sum)
	if got < 0.9*want || got > 1.1*want {
		t.Errorf("%s has had %.3f of the time, want %.3f", name, got, want)
	}
}

func TestTenantsHaveTheSameTimeHoweverManyAsk(t *testing.T) {
	for _, atWork := range []int{1, 4} {
		few := &crowd{path: shares.Path{1, 1}, workers: 2 * atWork, work: 50 * time.Microsecond}
		many := &crowd{path: shares.Path{1, 2}, workers: 500, work: 50 * time.Microsecond}
		slow := &crowd{path: shares.Path{1, 3}, workers: 500, work: 400 * time.Microsecond}
		play(t, atWork, 2*time.Second, few, many, slow)
		for name, c := range map[string]*crowd{"few": few, "many": many, "with long work": slow} {
			requireShare(t, c, name, 1.0/3, few, many, slow)
		}
	}
}

func TestABranchDividesWhatItGets(t *testing.T) {
	const work = 50 * time.Microsecond
	alone := &crowd{path: shares.Path{1, 7}, workers: 10, work: work}
	var divided, all []*crowd
	for i := range 9 {
		divided = append(divided, &crowd{path: shares.Path{2, 5, uint64(i)}, workers: 10, work: work})
	}
	beside := &crowd{path: shares.Path{2, 6}, workers: 10, work: work}
	all = append(slices.Clone(divided), alone, beside)
	play(t, 2, 4*time.Second, all...)
	requireShare(t, alone, "a tenant alone on its branch", 1.0/2, all...)
	requireShare(t, beside, "one beside a branch of nine", 1.0/4, all...)
	for _, c := range divided {
		requireShare(t, c, "one of nine", 1.0/36, all...)
	}
}

func TestNobodySavesUpTime(t *testing.T) {
	first := &crowd{path: shares.Path{1}, workers: 10, work: 50 * time.Microsecond}
	second := &crowd{path: shares.Path{2}, workers: 10, work: 50 * time.Microsecond, begins: time.Second}
	play(t, 1, 2*time.Second, first, second)
	// A second alone, and half of the next one.
	requireShare(t, first, "who was there first", 0.75, first, second)
}

// A tenant with few requests waits for a ticket that runs already, and for no other.
func TestWhoAsksRarelyHardlyWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		scheduler := shares.NewScheduler(shares.Limits{AtWork: 2, Waiting: 1000})
		over := time.Now().Add(time.Second)
		flood := &crowd{path: shares.Path{1}, workers: 1000, work: 100 * time.Microsecond}
		var all sync.WaitGroup
		for range flood.workers {
			all.Go(func() { flood.run(scheduler, over) })
		}
		ticket := scheduler.Ticket(shares.Path{2})
		for time.Now().Before(over) {
			time.Sleep(7 * time.Millisecond)
			asked := time.Now()
			ticket.Work()
			if waited := time.Since(asked); waited > flood.work {
				t.Fatalf("waited for %v beside work of %v", waited, flood.work)
			}
			time.Sleep(30 * time.Microsecond)
			ticket.Yield()
		}
		all.Wait()
	})
}

func TestNoMoreThanTheLimitWork(t *testing.T) {
	scheduler := shares.NewScheduler(shares.Limits{AtWork: 3, Waiting: 1000})
	var working, most, works atomic.Int64
	done := make(chan struct{})
	for i := range 50 {
		go func() {
			ticket := scheduler.Ticket(shares.Path{uint64(i % 5)})
			for range 200 {
				ticket.Work()
				now := working.Add(1)
				for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
				}
				works.Add(1)
				working.Add(-1)
				ticket.Yield()
			}
			done <- struct{}{}
		}()
	}
	for range 50 {
		<-done
	}
	if c := scheduler.Counts(); works.Load() != 50*200 || c.Waiting != 0 || c.Tenants != 0 {
		t.Errorf("%d pieces of work; at the end %+v", works.Load(), c)
	}
	// A ticket whose goroutine the machine has interrupted may have been stopped.
	if got := most.Load(); got > 3+int64(scheduler.Counts().Ended) {
		t.Errorf("%d have worked at a time, want 3", got)
	}
}

func TestATicketIsStoppedWhileOthersWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		scheduler := shares.NewScheduler(shares.Limits{AtWork: 1, Waiting: 10})
		blocked, other := scheduler.Ticket(shares.Path{1}), scheduler.Ticket(shares.Path{2})
		blocked.Work()
		time.Sleep(time.Hour) // nobody waits: it is its own
		asked := time.Now()
		other.Work()
		if waited := time.Since(asked); waited > 2*shares.Quantum {
			t.Errorf("waited for %v beside one who is blocked", waited)
		}
		if c := scheduler.Counts(); c.Ended != 1 || c.Waited != 1 {
			t.Errorf("got %+v", c)
		}
		blocked.Yield() // it has none any more
		blocked.Yield()
		other.Yield()
		blocked.Work()
		blocked.Yield()
	})
}

func TestNewWorkIsRefusedWhereTooMuchWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const most = 5
		scheduler := shares.NewScheduler(shares.Limits{AtWork: 1, Waiting: most})
		holder := scheduler.Ticket(shares.Path{9})
		holder.Begin()
		// Tickets stop after a while: no time passes here.
		var tickets []*shares.Ticket
		wait := func(p shares.Path) (refused bool) {
			ticket := scheduler.Ticket(p)
			tickets = append(tickets, ticket)
			answered := make(chan bool, 1)
			go func() { answered <- ticket.Begin() }()
			synctest.Wait()
			select {
			case ok := <-answered:
				return !ok
			default:
				return false
			}
		}
		for i := range most {
			if wait(shares.Path{1, 1}) {
				t.Fatalf("refused with %d waiting", i)
			}
		}
		if !wait(shares.Path{1, 1}) {
			t.Errorf("not refused with %d waiting", most)
		}
		if wait(shares.Path{1, 2}) {
			t.Error("another tenant is refused")
		}
		for i := range most - 1 {
			if wait(shares.Path{1, 3, uint64(i)}) {
				t.Errorf("refused on a branch with %d waiting", most+1+i)
			}
		}
		if !wait(shares.Path{1, 4}) {
			t.Errorf("not refused on a branch with %d waiting", 2*most)
		}
		if wait(shares.Path{2}) {
			t.Error("another branch is refused")
		}
		// What has begun goes on.
		begun := scheduler.Ticket(shares.Path{1, 1})
		went := make(chan struct{})
		go func() { begun.Work(); close(went) }()
		synctest.Wait()
		if c := scheduler.Counts(); c.Refused != 2 || c.Waiting != 2*most+2 {
			t.Errorf("got %+v, want 2 refused and %d waiting", c, 2*most+2)
		}
		holder.Yield()
		<-went
		time.Sleep(time.Second) // each ticket stops while others wait
		for _, ticket := range tickets {
			ticket.Yield()
		}
		begun.Yield()
		if c := scheduler.Counts(); c.Waiting != 0 || c.Tenants != 0 {
			t.Errorf("at the end %+v", c)
		}
	})
}

// A ticket may be shared: when one goroutine has yielded it, another queues it again.
func TestATicketIsShared(t *testing.T) {
	bubble(t, func(*testing.T) {
		scheduler := shares.NewScheduler(shares.Limits{AtWork: 1, Waiting: 10})
		shared, other := scheduler.Ticket(shares.Path{1}), scheduler.Ticket(shares.Path{2})
		other.Work()
		done := make(chan struct{}, 2)
		for range 2 {
			go func() { shared.Work(); done <- struct{}{} }()
		}
		synctest.Wait()
		other.Yield()
		<-done
		<-done
		shared.Work()
		shared.Yield()
		other.Work()
		other.Yield()
	})
}

func TestNoTicketWaitsWithoutAScheduler(t *testing.T) {
	var ticket shares.Ticket
	ticket.Work()
	if !ticket.Begin() {
		t.Error("refused")
	}
	ticket.Yield()
}

func TestTenantsThatWantNothingAreForgotten(t *testing.T) {
	scheduler := shares.NewScheduler(shares.Limits{AtWork: 1, Waiting: 10})
	stays := scheduler.Ticket(shares.Path{1, 2, 3})
	stays.Work()
	for i := range uint64(50_000) {
		ticket := scheduler.Ticket(shares.Path{4, i})
		if i%2 == 0 {
			ticket = scheduler.Ticket(shares.Path{i})
		}
		stays.Yield()
		ticket.Work()
		ticket.Yield()
		stays.Work()
	}
	if got := scheduler.Nodes(); got > 10_000 {
		t.Errorf("%d tenants are remembered", got)
	}
	stays.Yield()
}

func BenchmarkTickets(b *testing.B) {
	scheduler := shares.NewScheduler(shares.Limits{AtWork: 4, Waiting: 10})
	b.RunParallel(func(pb *testing.PB) {
		ticket := scheduler.Ticket(shares.Path{1, 2, 3})
		for pb.Next() {
			ticket.Work()
			ticket.Yield()
		}
	})
}

// In the midst of long work the tickets of others run, and the work goes on behind them.
func TestARescheduledTicketGoesOnBehindThoseThatWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		scheduler := shares.NewScheduler(shares.Limits{AtWork: 1, Waiting: 10})
		long, short := scheduler.Ticket(shares.Path{1}), scheduler.Ticket(shares.Path{2})
		long.Work()
		long.Reschedule()
		if c := scheduler.Counts(); c.Tenants != 1 || c.Waited != 0 {
			t.Errorf("nobody waits: %+v", c)
		}
		var worked time.Time
		var other sync.WaitGroup
		other.Go(func() {
			short.Work()
			time.Sleep(50 * time.Microsecond)
			worked = time.Now()
			short.Yield()
		})
		synctest.Wait()
		long.Reschedule()
		if now := time.Now(); worked.IsZero() || now.Before(worked) {
			t.Errorf("goes on at %v, the one who waited has worked until %v", now, worked)
		}
		other.Wait()
		if c := scheduler.Counts(); c.Ended != 0 || c.Tenants != 1 {
			t.Errorf("the ticket had to be stopped, or was lost: %+v", c)
		}
		long.Yield()
	})
}

// A ticket that was stopped does not run until it is granted again.
func TestATicketThatWasStoppedWaitsWhenItIsRescheduled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		scheduler := shares.NewScheduler(shares.Limits{AtWork: 1, Waiting: 10})
		long, other := scheduler.Ticket(shares.Path{1}), scheduler.Ticket(shares.Path{2})
		long.Work()
		var done time.Time
		var all sync.WaitGroup
		all.Go(func() {
			other.Work()
			time.Sleep(shares.Quantum / 2)
			done = time.Now()
			other.Yield()
		})
		synctest.Wait()
		time.Sleep(2*shares.Quantum + shares.Quantum/4) // by now the other works
		long.Reschedule()
		if now := time.Now(); now.Before(done) || done.IsZero() {
			t.Errorf("goes on at %v, the other works until %v", now, done)
		}
		all.Wait()
		long.Yield()
	})
}

// stopwatch is a Meter.
type stopwatch struct{ ran time.Duration }

func (s *stopwatch) Worked(d time.Duration) { s.ran += d }

func TestAMeterTakesTheTimeThatATicketRuns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := shares.NewScheduler(shares.Limits{AtWork: 1, Waiting: 9})
		ticket, other := s.Ticket(shares.Path{1}), s.Ticket(shares.Path{2})
		var first, second stopwatch
		require := func(when string, wantFirst, wantSecond time.Duration) {
			t.Helper()
			if first.ran != wantFirst || second.ran != wantSecond {
				t.Errorf("%s: %s and %s, want %s and %s", when, first.ran, second.ran, wantFirst, wantSecond)
			}
		}
		ticket.Measure(&first)
		ticket.Begin()
		time.Sleep(time.Microsecond)
		ticket.Yield()
		require("less than what is charged", time.Microsecond, 0)
		time.Sleep(time.Second)
		ticket.Work()
		time.Sleep(time.Second)
		ticket.Measure(&second)
		time.Sleep(time.Second)
		ticket.Yield()
		ticket.Yield()
		require("another meter amid a run takes all of it", time.Microsecond, 2*time.Second)

		// While others wait the ticket stops without its goroutine: what that works until it queues again counts nowhere.
		ticket.Work()
		done := make(chan struct{})
		go func() {
			defer close(done)
			other.Begin()
			time.Sleep(100 * time.Microsecond)
			other.Yield()
		}()
		time.Sleep(time.Second)
		<-done
		ticket.Yield()
		if d := second.ran - 2*time.Second; d < shares.Quantum || d > 2*shares.Quantum {
			t.Errorf("a ticket that was stopped: %s, want one or two quanta", d)
		}

		before := second.ran
		ticket.Measure(nil)
		further := ticket.Another()
		for _, ticket := range []*shares.Ticket{ticket, further} {
			ticket.Work()
			time.Sleep(time.Second)
			ticket.Yield()
		}
		require("no meter", time.Microsecond, before)
		(&shares.Ticket{}).Measure(&first) // it has no scheduler
	})
}

// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/maps"
)

var (
	begin = time.Unix(1700000000, 0)
	one   = netip.MustParseAddrPort("10.0.0.1:80")
	two   = netip.MustParseAddrPort("10.0.0.2:80")
)

// clock is a policy and its time.
type clock struct {
	*Policy
	now time.Time
}

func start() *clock { return &clock{New(), begin} }

// after lets time pass.
func (c *clock) after(d time.Duration) *clock {
	c.now = c.now.Add(d)
	return c
}

// times tells of the same event so often, at the same moment, and returns the decisions about
// endpoints and machine.
func (c *clock) times(n int, e Event) (decisions []Decision) {
	for range n {
		for _, d := range c.Event(c.now, e) {
			if d.Scope != Client {
				decisions = append(decisions, d)
			}
		}
	}
	return decisions
}

func of(what maps.Guard, endpoint netip.AddrPort, client uint64, tenant string) Event {
	return Event{What: what, Endpoint: endpoint, Client: client, Tenant: tenant}
}

// text is a decision in short.
func text(decisions []Decision) string {
	var out string
	for _, d := range decisions {
		var whom string
		switch d.Scope {
		case Client:
			whom = fmt.Sprint(d.Client)
		case Endpoint:
			whom = d.Endpoint.String()
		case Machine:
		}
		verb := "leaves"
		if d.Back {
			verb = "returns"
		}
		out += fmt.Sprintf("%s %s %s for %s;", d.Scope, whom, verb, d.For)
	}
	return out
}

func require(t *testing.T, got []Decision, want string) {
	t.Helper()
	if text := text(got); text != want {
		t.Errorf("decisions: got %q, want %q", text, want)
	}
}

func TestClientPaysForWhatItCanProvokeAlone(t *testing.T) {
	for what, limit := range map[maps.Guard]int{
		maps.GuardCut: 16, maps.GuardShort: 16, maps.GuardConcurrent: 4, maps.GuardUrgent: 4, maps.GuardSequence: 1,
	} {
		t.Run(maps.GuardName(what), func(t *testing.T) {
			c := start()
			for i := range limit - 1 {
				require(t, c.Event(c.now, of(what, one, 7, "a")), "")
				if i%2 == 0 {
					require(t, c.Event(c.now, of(maps.GuardUnasked, one, 7, "a")), "")
				}
			}
			require(t, c.Event(c.now, of(what, one, 7, "a")), "client 7 leaves for 0s;")
			if off := c.Off(); len(off) != 0 {
				t.Errorf("off the fast path: %v", off)
			}
		})
	}
}

func TestClientThatDoesSoNowAndThenStays(t *testing.T) {
	c := start()
	for range 1000 {
		require(t, c.after(21*time.Second).Event(c.now, of(maps.GuardUrgent, one, 7, "a")), "")
	}
}

// However often one tenant does what, and on however many connections, with one endpoint or with
// all: others keep the fast path.
func TestOneTenantTakesNothingFromOthers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, tenant := range []string{"a", ""} {
		c := start()
		for range 10_000 {
			e := of(maps.Guard(random.IntN(int(maps.GuardCount))), one, random.Uint64N(1000), tenant)
			if random.IntN(2) == 0 {
				e.Endpoint = two
			}
			if got := c.after(10*time.Millisecond).times(1, e); got != nil {
				t.Fatalf("tenant %q: %s", tenant, text(got))
			}
		}
		// Who the tenant is cannot always be found out.
		if tenant != "" {
			require(t, c.times(100, of(maps.GuardCut, one, 7, "")), "")
			require(t, c.times(100, of(maps.GuardSequence, two, 7, "")), "")
		}
	}
}

func TestUnaskedBytesTakeNothingOff(t *testing.T) {
	c := start()
	for i := range uint64(2000) {
		require(t, c.Event(c.now, of(maps.GuardUnasked, one, i%10, fmt.Sprint(i%7))), "")
	}
}

func TestEndpointThatIsShortOfMemoryForManyLeaves(t *testing.T) {
	c := start()
	require(t, c.times(100, of(maps.GuardCut, one, 1, "a")), "")
	require(t, c.times(8, of(maps.GuardShort, one, 2, "b")), "")
	require(t, c.times(7, of(maps.GuardCut, one, 3, "c")), "")
	// With another endpoint, or too long after.
	require(t, c.times(8, of(maps.GuardCut, two, 3, "c")), "")
	require(t, c.times(1, of(maps.GuardShort, one, 3, "c")), "endpoint 10.0.0.1:80 leaves for 1m0s;")
	require(t, c.times(100, of(maps.GuardShort, one, 3, "c")), "")
	want := []Off{{
		Scope: Endpoint, Endpoint: one, Since: begin, Until: begin.Add(time.Minute),
		Why: "116 x cut or short, seen by clients of 3 cgroups, within 1m0s",
	}}
	if diff := cmp.Diff(want, c.Off(), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("off the fast path (-want +got):\n%s", diff)
	}
}

func TestEventsOfLongAgoDoNotCount(t *testing.T) {
	c := start()
	require(t, c.times(8, of(maps.GuardCut, one, 1, "a")), "")
	require(t, c.times(8, of(maps.GuardCut, one, 2, "b")), "")
	require(t, c.after(time.Minute).times(8, of(maps.GuardCut, one, 3, "c")), "")
	require(t, c.times(1, of(maps.GuardSequence, one, 4, "a")), "")
	require(t, c.after(10*time.Minute).times(1, of(maps.GuardSequence, one, 5, "b")), "")
}

func TestWrongSequencesOfTwoTenantsTakeTheEndpointOff(t *testing.T) {
	c := start()
	require(t, c.times(10, of(maps.GuardSequence, one, 1, "a")), "")
	require(t, c.times(1, of(maps.GuardSequence, one, 2, "b")), "endpoint 10.0.0.1:80 leaves for 1m0s;")
}

func TestWrongSequencesWithTwoEndpointsTakeTheMachineOff(t *testing.T) {
	c := start()
	require(t, c.times(1, of(maps.GuardSequence, one, 1, "a")), "")
	require(t, c.times(1, of(maps.GuardSequence, two, 1, "a")), "")
	require(t, c.times(1, of(maps.GuardSequence, two, 2, "b")), "endpoint 10.0.0.2:80 leaves for 1m0s;machine  leaves for 0s;")
	off := c.Off()
	if len(off) != 2 || off[0].Scope != Machine || !off[0].Until.IsZero() || off[0].Why != "3 x sequence with 2 endpoints, seen by clients of 2 cgroups, within 10m0s" {
		t.Errorf("off the fast path: %+v", off)
	}
	// Nothing is left to decide, and time does not heal it.
	require(t, c.Event(c.now, of(maps.GuardUrgent, one, 1, "a")), "")
	require(t, c.after(24*time.Hour).Due(c.now), "endpoint 10.0.0.2:80 returns for 24h0m0s;")
	if off := c.Off(); len(off) != 1 {
		t.Errorf("off the fast path: %+v", off)
	}
}

// breaks has an endpoint leave the fast path.
func (c *clock) breaks(t *testing.T, want time.Duration) {
	t.Helper()
	c.times(8, of(maps.GuardCut, one, 1, "a"))
	c.times(8, of(maps.GuardCut, one, 2, "b"))
	require(t, c.times(8, of(maps.GuardCut, one, 3, "c")), fmt.Sprintf("endpoint 10.0.0.1:80 leaves for %s;", want))
}

func TestEndpointRestsTwiceAsLongEachTime(t *testing.T) {
	c := start()
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		length := want * time.Minute
		c.breaks(t, length)
		if next := c.Next(); !next.Equal(c.now.Add(length)) {
			t.Errorf("next look: %s, want %s", next, c.now.Add(length))
		}
		require(t, c.after(length-1).Due(c.now), "")
		require(t, c.after(1).Due(c.now), fmt.Sprintf("endpoint 10.0.0.1:80 returns for %s;", length))
		if off := c.Off(); len(off) != 0 {
			t.Errorf("off the fast path: %v", off)
		}
		// What had it leave is not counted again.
		require(t, c.times(7, of(maps.GuardCut, one, 3, "c")), "")
		c.after(time.Minute)
	}
	require(t, c.after(forgiveness).Due(c.now), "")
	if !c.Next().IsZero() || len(c.endpoints) != 0 {
		t.Errorf("an endpoint that has behaved is remembered: %v", c.endpoints)
	}
	c.breaks(t, time.Minute)
}

func counts(what maps.Guard, n uint64) []uint64 {
	all := make([]uint64, maps.GuardCount)
	all[what] = n
	return all
}

// missing looks at the counts, and returns how many are without an event.
func (c *clock) missing(t *testing.T, what maps.Guard, n uint64, want string) uint64 {
	t.Helper()
	missed, decisions := c.Counts(c.now, counts(what, n))
	require(t, decisions, want)
	return missed[what]
}

func TestEventsThatAreOnTheirWayAreNotMissing(t *testing.T) {
	c := start()
	c.times(3, of(maps.GuardUrgent, one, 1, "a"))
	if n := c.missing(t, maps.GuardUrgent, 5, ""); n != 0 || !c.Behind() {
		t.Errorf("missing: got %d, want 0; behind: %v", n, c.Behind())
	}
	c.times(2, of(maps.GuardUrgent, one, 1, "a"))
	for range 2 {
		if n := c.missing(t, maps.GuardUrgent, 5, ""); n != 0 || c.Behind() {
			t.Errorf("missing: got %d, want 0; behind: %v", n, c.Behind())
		}
	}
	c.missing(t, maps.GuardUrgent, 100, "")
	if n := c.missing(t, maps.GuardUrgent, 100, ""); n != 95 || c.Behind() {
		t.Errorf("missing: got %d, want 95; behind: %v", n, c.Behind())
	}
	if n := c.missing(t, maps.GuardUrgent, 100, ""); n != 0 {
		t.Errorf("missing: got %d once more", n)
	}
}

// What is hidden behind other events counts, but no more than that: it is nobody's.
func TestMissingEventsCountForTheMachineAlone(t *testing.T) {
	c := start()
	c.missing(t, maps.GuardSequence, 50, "")
	if n := c.missing(t, maps.GuardSequence, 50, ""); n != 50 {
		t.Errorf("missing: got %d, want 50", n)
	}
	require(t, c.times(1, of(maps.GuardSequence, one, 1, "a")), "")
	require(t, c.times(1, of(maps.GuardSequence, two, 2, "b")), "machine  leaves for 0s;")
}

func TestNewProgramsCountFromZero(t *testing.T) {
	c := start()
	c.missing(t, maps.GuardUrgent, 50, "")
	c.missing(t, maps.GuardUrgent, 50, "")
	c.missing(t, maps.GuardUrgent, 2, "")
	if n := c.missing(t, maps.GuardUrgent, 2, ""); n != 0 {
		t.Errorf("missing: got %d, want 0", n)
	}
}

// A flood of one kind neither fills the memory nor hides another kind.
func TestFloodHidesNothingElse(t *testing.T) {
	c := start()
	require(t, c.times(1, of(maps.GuardSequence, one, 1, "a")), "")
	require(t, c.times(1, of(maps.GuardSequence, two, 1, "a")), "")
	for i := range uint64(20_000) {
		c.after(time.Millisecond).times(1, of(maps.GuardUrgent, one, i, fmt.Sprint(i)))
	}
	c.missing(t, maps.GuardCut, 1<<40, "")
	c.missing(t, maps.GuardCut, 1<<40, "")
	for what, list := range c.seen {
		if len(list) > maxSeen {
			t.Errorf("%s: %d events are remembered, want at most %d", maps.GuardName(maps.Guard(what)), len(list), maxSeen)
		}
	}
	require(t, c.times(1, of(maps.GuardSequence, two, 2, "b")), "endpoint 10.0.0.2:80 leaves for 1m0s;machine  leaves for 0s;")
}

func TestGuardOfNewerProgramsIsNoEvent(t *testing.T) {
	c := start()
	require(t, c.Event(c.now, Event{What: maps.GuardCount, Client: 1}), "")
}

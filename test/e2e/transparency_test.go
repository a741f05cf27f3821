// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// topology is where a server stands, seen from its client.
type topology struct {
	name   string
	places func(t testing.TB) (clients, servers *harness.Place)
}

const sameHost, twoHosts = "same host", "two hosts"

var topologies = []topology{
	{sameHost, func(t testing.TB) (clients, servers *harness.Place) {
		place := harness.SameHost(t)
		return place, place
	}},
	{twoHosts, harness.TwoHosts},
}

// difference is something that an application observes through XLB otherwise than on a direct connection. docs/limits.md
// lists each, with what to do about it.
type difference struct {
	habit string
	// direct is the note on a direct connection, through the note through XLB.
	direct, through string
	// slowToo tells that it is so without the fast path, too.
	slowToo bool
	// only is the topology that it takes, if not any.
	only string
	// race tells that it takes a client or server that is quick: a late one finds everything there.
	race bool
}

var differences = []difference{
	{habit: "MSG_ZEROCOPY asked for after connect", direct: "SO_ZEROCOPY: ok", through: "SO_ZEROCOPY: ENOTSUP"},
	{habit: "MSG_ZEROCOPY asked for after connect", direct: "when the completion comes", through: "at once"},
	{habit: "MSG_ZEROCOPY asked for after an exchange", direct: "SO_ZEROCOPY: ok", through: "SO_ZEROCOPY: ENOTSUP"},
	{habit: "MSG_ZEROCOPY asked for after an exchange", direct: "when the completion comes", through: "at once"},
	{habit: "SO_RCVBUF, SO_SNDBUF", direct: "SO_RCVBUF reads back doubled: true, ok", through: "SO_RCVBUF reads back doubled: false, ok"},
	{habit: "SO_RCVBUF, SO_SNDBUF", direct: "SO_SNDBUF reads back doubled: true, ok", through: "SO_SNDBUF reads back doubled: false, ok"},
	{
		habit: "SO_RCVBUF, SO_SNDBUF", direct: "SO_SNDBUF, set again, reads back doubled: true, ok",
		through: "SO_SNDBUF, set again, reads back doubled: false, ok",
	},
	{habit: "TCP_INFO, bytes", direct: "bytes of the request are counted: true", through: "bytes of the request are counted: false"},
	{habit: "TCP_INFO, bytes", direct: "bytes of the answer are counted: true", through: "bytes of the answer are counted: false"},
	{habit: "connect again with an answer unread", direct: "connect again: ok", through: "connect again: ECONNABORTED"},
	{habit: "getsockname", direct: "10.99.0.1", through: "127.0.0.1", slowToo: true, only: twoHosts},
	{habit: "half close, then recv without poll", direct: "recv: ok", through: "recv: EAGAIN", race: true},
	{habit: "poll with SO_RCVLOWAT", direct: "poll waits for so much: true", through: "poll waits for so much: false", race: true},
	{habit: "receive by splice", direct: "splice: ok", through: "splice: EAGAIN"},
	{habit: "receive interrupted by a signal", direct: "recv: ok", through: "recv: EAGAIN", race: true},
	{habit: "receive with MSG_OOB", direct: "recv where nothing is urgent: EINVAL", through: "recv where nothing is urgent: ok"},
	{habit: "receive with MSG_TRUNC and no buffer", direct: "throw away: 17", through: "throw away: EFAULT"},
	{habit: "receive with MSG_WAITALL", direct: "it waits for all it asked for: true", through: "it waits for all it asked for: false", race: true},
	{habit: "receive with SO_RCVLOWAT", direct: "it waits for so much: true", through: "it waits for so much: false", race: true},
	// Of servers.
	{habit: programs.UploadInParts, direct: `oddities ""`, through: `oddities "MSG_WAITALL returned early"`, only: sameHost, race: true},
	{habit: programs.UploadInParts, direct: `oddities ""`, through: `oddities "SO_RCVLOWAT returned early"`, only: sameHost, race: true},
	{habit: programs.UploadInParts, direct: `oddities ""`, through: `oddities "splice sees nothing where poll says readable"`, only: sameHost, race: true},
}

// matchesDirect tells whether a note made through XLB is what the note on a direct connection lets expect.
func matchesDirect(direct, through, habit string, mode harness.Mode, topology string) bool {
	same := direct == through
	for _, d := range differences {
		if d.habit != habit || !mode.Fast && !d.slowToo || d.only != "" && d.only != topology || !strings.Contains(direct, d.direct) {
			continue
		}
		if strings.Replace(direct, d.direct, d.through, 1) == through {
			return true
		}
		// A difference that is no more must leave the list.
		same = same && d.race
	}
	return same
}

// slowHabits are served in user space in part or in whole: why, is the kernel's or HTTP's matter.
var slowHabits = []string{
	"MPTCP", "MSG_ZEROCOPY asked for before connect", "poll after the answer", "send half a head with MSG_MORE", "send with SO_SNDTIMEO", "write after the end",
}

func runHabit(t *testing.T, place *harness.Place, spec programs.HabitSpec) []string {
	t.Helper()
	return runHabits(t, place, spec)[0]
}

// runHabits runs clients, some beside each other: most of their time they wait.
func runHabits(t *testing.T, place *harness.Place, specs ...programs.HabitSpec) (notes [][]string) {
	t.Helper()
	const atOnce = 8
	for some := range slices.Chunk(specs, atOnce) {
		var clients []*harness.Process
		for _, spec := range some {
			// A hang is noted after this; nothing else takes so long.
			spec.Limit = 10 * time.Second
			clients = append(clients, place.Program(t, programs.HabitProgram, spec))
		}
		for _, client := range clients {
			var report programs.HabitReport
			client.Next(t, &report)
			notes = append(notes, report.Notes)
		}
	}
	return notes
}

// mannersOf starts a server of good manners.
func mannersOf(t *testing.T, place *harness.Place, identity string) *harness.Manners {
	t.Helper()
	return place.Manners(t, programs.MannersSpec{Identity: identity, Read: programs.ReadPlain})
}

// Each client program runs against a server directly and through XLB, and must observe the same.
func TestApplicationsObserveTheSameAsOnADirectConnection(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.Beside(t)
	harness.OnlyXLB(t, "a proxy ends connections, and nobody expects less")
	for _, topology := range topologies {
		t.Run(topology.name, func(t *testing.T) {
			clients, servers := topology.places(t)
			server, other := mannersOf(t, servers, "server"), mannersOf(t, servers, "other")
			var habits []programs.HabitSpec
			for _, name := range programs.Habits() {
				habits = append(habits, programs.HabitSpec{Habit: name, Address: server.Address.String(), Other: other.Address.String()})
			}
			direct := runHabits(t, clients, habits...)
			for _, notes := range direct {
				requireWork(t, notes)
			}
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				service := harness.Service()
				balancer := harness.Start(t, mode, harness.OneCluster(service, server.Address), clients)
				through := slices.Clone(habits)
				for i := range through {
					through[i].Address = service.String()
				}
				notes := make([][]string, len(habits))
				if !mode.Fast {
					notes = runHabits(t, clients, through...)
				}
				for i, spec := range through {
					t.Run(spec.Habit, func(t *testing.T) {
						if mode.Fast {
							// One at a time, because the counts must be its own.
							before, _ := balancer.Served(t)
							notes[i] = runHabit(t, clients, spec)
							if after, _ := balancer.Served(t); after == before && !slices.Contains(slowHabits, spec.Habit) {
								t.Error("no request was served fast")
							}
						}
						requireSame(t, direct[i], notes[i], func(direct, through string) bool {
							return matchesDirect(direct, through, spec.Habit, mode, topology.name)
						})
					})
				}
			})
		})
	}
}

// requireWork fails when a client did not get through its work on a direct connection: then there is nothing to compare.
func requireWork(t *testing.T, notes []string) {
	t.Helper()
	if len(notes) == 0 || strings.HasPrefix(notes[len(notes)-1], "then: ") {
		t.Fatalf("the client fails without XLB: %q", notes)
	}
}

// requireSame compares notes one by one.
func requireSame(t *testing.T, direct, through []string, matches func(direct, through string) bool) {
	t.Helper()
	if len(direct) != len(through) {
		t.Errorf("observations:\n\tdirectly    %q\n\tthrough XLB %q", direct, through)
		return
	}
	for i := range direct {
		if !matches(direct[i], through[i]) {
			t.Errorf("observation %d is not as expected (see differences; a row that no longer holds must go):\n\tdirectly    %s\n\tthrough XLB %s",
				i, direct[i], through[i])
		}
	}
}

// A server gets its requests and gives its answers in every manner that there is.
func TestServersCanUseTheirSocketsInEveryManner(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.Beside(t)
	harness.OnlyXLB(t, "a proxy ends connections, and nobody expects less")
	for _, topology := range topologies {
		t.Run(topology.name, func(t *testing.T) {
			clients, servers := topology.places(t)
			running := map[string]*harness.Manners{}
			for _, read := range programs.Readers() {
				running[read] = servers.Manners(t, programs.MannersSpec{Identity: "server", Read: read})
			}
			var names []string
			var uploads []programs.HabitSpec
			add := func(name, read, write string) {
				server := running[read].Address.String()
				names = append(names, name)
				uploads = append(uploads, programs.HabitSpec{Habit: programs.UploadInParts, Manner: write, Address: server, Other: server})
			}
			for _, read := range programs.Readers() {
				add("read/"+read, read, programs.WritePlain)
			}
			for _, write := range programs.Writers() {
				add("write/"+write, programs.ReadPlain, write)
			}
			direct := runHabits(t, clients, uploads...)
			for _, notes := range direct {
				requireWork(t, notes)
			}
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				// Each has a cluster of its own, and so an i-sock that is idle.
				var config harness.Config
				through := slices.Clone(uploads)
				for i := range through {
					service := harness.Service()
					config.Add(harness.OneCluster(service, netip.MustParseAddrPort(through[i].Address)))
					through[i].Address = service.String()
				}
				balancer := harness.Start(t, mode, config, clients)
				for i, notes := range runHabits(t, clients, through...) {
					t.Run(names[i], func(t *testing.T) {
						requireSame(t, direct[i], notes, func(direct, through string) bool {
							return matchesDirect(direct, through, programs.UploadInParts, mode, topology.name)
						})
					})
				}
				if missed := running[programs.ReadPlain].State(t).Missed; missed > 0 {
					t.Errorf("completions of MSG_ZEROCOPY that a server asked for and that did not come: %d", missed)
				}
				balancer.RequireFast(t, mode, 0.9)
			})
		})
	}
}

// A server whose listening socket asks for completions waits for them before it uses its memory again, and gets them.
func TestServersThatAskForCompletionsBeforeTheyListenGetThem(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "a proxy ends connections")
	for _, topology := range topologies {
		t.Run(topology.name, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				clients, servers := topology.places(t)
				server := servers.Manners(t, programs.MannersSpec{Read: programs.ReadPlain, Zerocopy: true})
				service := harness.Service()
				balancer := harness.Start(t, mode, harness.OneCluster(service, server.Address), clients)
				notes := runHabit(t, clients, programs.HabitSpec{
					Habit: programs.UploadInParts, Manner: programs.WriteZerocopy, Address: service.String(), Other: service.String(),
				})
				requireWork(t, notes)
				if state := server.State(t); state.Missed > 0 || state.Completed == 0 {
					t.Errorf("completions: got %+v, want some and none missed", state)
				}
				balancer.RequireFast(t, mode, 0.9)
			})
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/body"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
	"github.com/xlb-project/xlb/test/violation"
)

// blocked waits until the server has sent something and then nothing for a
// while, and returns how much it sent.
func blocked(t *testing.T, server *harness.Origin) int64 {
	t.Helper()
	const quiet = 500 * time.Millisecond
	var sent int64
	since := time.Now()
	harness.Eventually(t, await.Patience, "the server blocks in its write", func() bool {
		now := server.State(t).Sent
		if now != sent {
			sent, since = now, time.Now()
		}
		return sent > 0 && time.Since(since) > quiet
	})
	return sent
}

// oneServerWithoutTimeout routes everything to one server, in the second place, and lets it take as
// long as it likes.
func oneServerWithoutTimeout(t *testing.T, mode harness.Mode, place, at *harness.Place) (*harness.Balancer, *harness.Origin, string) {
	t.Helper()
	service := harness.Service()
	servers, addresses := origins(t, at, "server")
	config := harness.OneCluster(service, addresses...)
	config.Listeners[0].Hosts[0].Routes[0].Timeout = -1
	return harness.Start(t, mode, config, place), servers[0], service.String()
}

// placeOfBoundedBuffers is for a test of memory. XLB has to keep its bound with
// the machine's own settings. Envoy leaves its receive buffers to the kernel,
// whose limit is 32 MB on recent kernels and was 6 MB for long; the bound of the
// test supposes the latter.
func placeOfBoundedBuffers(t *testing.T) *harness.Place {
	t.Helper()
	if !harness.Envoy() {
		return harness.SameHost(t)
	}
	place := harness.Isolated(t)
	place.Sysctl(t, "ipv4/tcp_rmem", "4096 131072 6291456")
	return place
}

func TestClientThatDoesNotReadCostsLittleMemory(t *testing.T) {
	suite.Long(t, suite.Machine)
	const size, seed, allowed = 1 << 30, 7, 16 << 20
	for _, framing := range []string{programs.FramingLength, programs.FramingChunked} {
		t.Run(framing, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				if framing == programs.FramingChunked && testing.Short() {
					t.Skip("-short checks one framing")
				}
				place := placeOfBoundedBuffers(t)
				_, server, service := oneServerWithoutTimeout(t, mode, place, place)
				// Nobody stops to read from the other one: both have the same machine at the same time.
				otherPlace := placeOfBoundedBuffers(t)
				_, _, otherService := oneServerWithoutTimeout(t, mode, otherPlace, otherPlace)
				compare := func() (median, other time.Duration) {
					return runBoth(t, place, otherPlace, service, otherService)
				}
				compare()
				memory := harness.TCPMemory(t)

				parked := place.Program(t, programs.ParkedProgram, programs.ParkedSpec{
					Address: service,
					Path:    fmt.Sprintf("/body?seed=%d&size=%d&framing=%s", seed, size, framing),
				})
				parked.Next(t, &programs.ParkedReport{})
				sent := blocked(t, server)
				if sent >= size/4 {
					t.Errorf("the server sent %d MB to a client that does not read", sent>>20)
				}
				grown := awaitTCPMemory(t, memory, allowed)
				await.OneOfThree(t, "latency of others", func() string {
					median, other := compare()
					t.Logf("median %v beside a client that does not read, %v elsewhere", median, other)
					if median > 3*other {
						return fmt.Sprintf("median %v beside a client that does not read, want at most 3 x %v", median, other)
					}
					return ""
				})

				var report programs.ParkedReport
				parked.Ask(t, "read", &report)
				if want := body.Digest(seed, size); report.Error != "" || report.Size != size || report.Digest != want {
					violation.Errorf(t, "the body differs: %d of %d bytes, error %q", report.Size, size, report.Error)
				}
				t.Logf("server blocked after %d kB, TCP memory grew %d kB", sent>>10, grown>>10)
			})
		})
	}
}

// awaitTCPMemory waits until TCP holds less than so many bytes more than before, and returns how many. What clients that do not read have lies there as
// long as they live; what else the machine does with TCP comes and goes.
func awaitTCPMemory(t *testing.T, before, allowed int64) (grown int64) {
	t.Helper()
	await.Quiet(t, func() string {
		if grown = harness.TCPMemory(t) - before; grown >= allowed {
			return fmt.Sprintf("TCP memory grew by %d MB, want less than %d", grown>>20, allowed>>20)
		}
		return ""
	})
	return grown
}

// runBoth has clients of two services ask at the same time, and returns their medians.
func runBoth(t *testing.T, place, otherPlace *harness.Place, service, otherService string) (median, other time.Duration) {
	t.Helper()
	spec, otherSpec := programs.LoadSpec{Address: service, Connections: 4, Requests: 500}, programs.LoadSpec{Address: otherService, Connections: 4, Requests: 500}
	load, otherLoad := place.Program(t, programs.LoadProgram, spec), otherPlace.Program(t, programs.LoadProgram, otherSpec)
	var report, otherReport programs.LoadReport
	load.Next(t, &report)
	otherLoad.Next(t, &otherReport)
	requireClean(t, report)
	requireClean(t, otherReport)
	return report.Median, otherReport.Median
}

// Of the bookkeeping of many small messages the kernel counts nothing: XLB has to.
func TestClientThatDoesNotReadGetsFewSmallMessages(t *testing.T) {
	const size, allowed = 100 << 20, 2200
	if !harness.FastPath(t) {
		t.Skip("without the fast path nothing is moved")
	}
	place := harness.SameHost(t)
	balancer, server, service := oneServerWithoutTimeout(t, harness.Mode{Fast: true}, place, place)
	parked := place.Program(t, programs.ParkedProgram, programs.ParkedSpec{
		Address: service, Path: fmt.Sprintf("/body?seed=3&size=%d&framing=length&crumbs=true", size),
	})
	parked.Next(t, &programs.ParkedReport{})
	blocked(t, server)
	moved := balancer.Metric(t, "xlb_verdicts_total", `verdict="response_moved"`)
	if moved == 0 || moved > allowed {
		t.Errorf("messages that wait in the client: got %.0f, want 1 to %d", moved, allowed)
	}
	if spilled := balancer.Metric(t, "xlb_spills_total", `reason="full"`); spilled != 1 {
		t.Errorf("spilled responses: got %.0f, want 1", spilled)
	}
}

// What is moved must leave room in the receive buffer for what the daemon sends behind it: TCP drops what finds none, and tries again ever more
// seldom.
func TestClientWithASmallBufferGoesOnWhereItStopped(t *testing.T) {
	suite.Long(t, suite.Slow)
	const size, buffer, stopped = 4 << 20, 160 << 10, 2 * time.Second
	if !harness.FastPath(t) {
		t.Skip("without the fast path nothing is moved")
	}
	for _, framing := range []string{programs.FramingLength, programs.FramingChunked} {
		t.Run(framing, func(t *testing.T) {
			place := harness.Isolated(t) // which has counters of its own
			_, server, service := oneServerWithoutTimeout(t, harness.Mode{Fast: true}, place, place)
			await.OneOfThree(t, "a client that has stopped", func() string {
				before := place.Netstat(t)
				parked := place.Program(t, programs.ParkedProgram, programs.ParkedSpec{
					Address: service, Path: fmt.Sprintf("/body?seed=3&size=%d&framing=%s", size, framing), ReceiveBuffer: buffer,
				})
				parked.Next(t, &programs.ParkedReport{})
				blocked(t, server)
				time.Sleep(stopped) // what is sent in vain meanwhile is counted
				var report programs.ParkedReport
				began := time.Now()
				parked.Ask(t, "read", &report)
				t.Logf("the rest took %v from when the client read on", time.Since(began))
				if want := body.Digest(3, size); report.Error != "" || report.Size != size || report.Digest != want {
					violation.Errorf(t, "the body differs: %d of %d bytes, error %q", report.Size, size, report.Error)
				}
				return sentInVain(before, place.Netstat(t))
			})
		})
	}
}

// sentInVain tells of segments that a receiver without room has dropped, and of those that were sent again because nothing told of them in time: as many
// as there are, by so much later does what stopped go on. A sender that knows that the window is closed asks instead, and goes on when it is told.
func sentInVain(before, after map[string]int64) (what string) {
	for _, counter := range []string{"TCPZeroWindowDrop", "TCPRcvQDrop", "TCPTimeouts"} {
		if n := after[counter] - before[counter]; n > 0 {
			what += fmt.Sprintf("%s %d ", counter, n)
		}
	}
	return what
}

// park starts clients that ask for a body of that size, and do not read it.
func park(t *testing.T, place *harness.Place, service string, size, clients int) *harness.Process {
	t.Helper()
	parked := place.Program(t, programs.ParkedProgram, programs.ParkedSpec{
		Address: service, Path: fmt.Sprintf("/body?seed=3&size=%d&framing=length", size), Clients: clients,
	})
	parked.Next(t, &programs.ParkedReport{})
	return parked
}

// What a server has sent and no client has read lies in the kernel, or in the daemon's buffer, whatever of it the kernel counts.
func TestClientsThatDoNotReadCostLittleEach(t *testing.T) {
	suite.Long(t, suite.Machine)
	const size, clients, allowed = 100 << 20, 200, 12 << 20
	for _, topology := range topologies {
		t.Run(topology.name, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				place, servers := topology.places(t)
				balancer, server, service := oneServerWithoutTimeout(t, mode, place, servers)
				requireClean(t, runLoad(t, place, programs.LoadSpec{Address: service, Connections: 4, Requests: 500}))
				memory := harness.TCPMemory(t)
				parked := park(t, place, service, size, clients)
				sent := blocked(t, server)
				if sent > clients*allowed {
					t.Errorf("the server sent %d kB to each client that does not read, want at most %d", sent/clients>>10, allowed>>10)
				}
				grown := awaitTCPMemory(t, memory, clients*allowed)
				t.Logf("for each of %d clients the server sent %d kB, and TCP memory grew by %d kB", clients, sent/clients>>10, grown/clients>>10)

				var report programs.ParkedReport
				parked.Ask(t, "read", &report)
				if want := body.Digest(3, size); report.Error != "" || report.Size != size || report.Digest != want {
					t.Errorf("the body differs: %d of %d bytes, error %q", report.Size, size, report.Error)
				}
				harness.Eventually(t, time.Minute, "no lease is active", func() bool {
					return balancer.Metric(t, "xlb_leases_active") == 0
				})
			})
		})
	}
}

// What lies before clients that do not read is free soon after they have gone.
func TestClientsThatDoNotReadFreeTheirMemoryWhenTheyLeave(t *testing.T) {
	suite.Long(t, suite.Machine)
	const size, clients, allowed = 100 << 20, 100, 32 << 20
	for _, topology := range topologies {
		t.Run(topology.name, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				place, servers := topology.places(t)
				_, server, service := oneServerWithoutTimeout(t, mode, place, servers)
				requireClean(t, runLoad(t, place, programs.LoadSpec{Address: service, Connections: 4, Requests: 500}))
				memory := harness.TCPMemory(t)
				parked := park(t, place, service, size, clients)
				blocked(t, server)
				grown := harness.TCPMemory(t) - memory
				if grown < 2*allowed {
					t.Fatalf("TCP memory grew by %d kB alone: there is nothing to return", grown>>10)
				}
				parked.Kill(t)
				began := time.Now()
				harness.Eventually(t, patience, "TCP memory returns", func() bool {
					return harness.TCPMemory(t) < memory+allowed
				})
				t.Logf("%d MB of TCP memory were free after %v", grown>>20, time.Since(began))
			})
		})
	}
}

func TestClientThatLeavesInMidResponseFreesEverything(t *testing.T) {
	suite.Long(t, suite.Machine)
	const size, seed = 1 << 30, 11
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.SameHost(t)
		balancer, server, service := oneServerWithoutTimeout(t, mode, place, place)
		memory := harness.TCPMemory(t)
		for range 8 {
			parked := place.Program(t, programs.ParkedProgram, programs.ParkedSpec{
				Address: service, Path: fmt.Sprintf("/body?seed=%d&size=%d&framing=length", seed, size),
			})
			parked.Next(t, &programs.ParkedReport{})
			blocked(t, server)
			parked.Kill(t)
		}

		harness.Eventually(t, await.Patience, "TCP memory returns", func() bool {
			return harness.TCPMemory(t) < memory+4<<20
		})
		harness.Eventually(t, await.Patience, "no lease is active", func() bool {
			return balancer.Metric(t, "xlb_leases_active") == 0
		})
		// Rests of the responses must not come up in anyone else's.
		report := runLoad(t, place, programs.LoadSpec{Address: service, Connections: 8, Requests: 50})
		requireClean(t, report)
		if got := report.Served[0]["server"]; got != report.Total {
			t.Errorf("right answers afterwards: got %d of %d", got, report.Total)
		}
	})
}

// Clients that close in the midst of what the daemon sends them leave nothing in the kernel's maps, however many they are.
func TestClientsThatCloseAmidSegmentsLeaveNoState(t *testing.T) {
	harness.OnlyXLB(t, "it looks at XLB's maps")
	if !harness.FastPath(t) {
		t.Skip("needs a kernel that can run the fast path: 6.12")
	}
	place := harness.SameHost(t)
	balancer, _, service := oneServerWithoutTimeout(t, harness.Mode{Fast: true}, place, place)
	// Two requests in one send are the daemon's.
	request := get("/body?seed=1&size=100000000&framing=length")
	var report programs.ChurnReport
	place.Program(t, programs.ChurnProgram, programs.ChurnSpec{
		Address: service, Connections: 2000, Concurrency: 8, Say: request + request, Take: 300_000,
	}).Next(t, &report)
	if report.Problem != "" {
		t.Errorf("connections: %d in order, one failed: %s", report.Opened, report.Problem)
	}
	// Where the client's window was closed, TCP alone ends the connection after a minute: XLB knows before.
	harness.Eventually(t, patience, "no connection is left", func() bool {
		return balancer.Metric(t, "xlb_connections_active") == 0 && balancer.MapEntries(t, "slow_conns") == 0
	})
	harness.Eventually(t, patience, "no state of what sockets receive is left", func() bool {
		return balancer.MapEntries(t, "receive_sequences") == 0
	})
}

// idleMemory bounds what a client connection that is idle may take of the daemon's memory, with all that one request of it has left there: less than
// a goroutine with a buffer.
const idleMemory = 4 << 10

func TestTenThousandOpenConnections(t *testing.T) {
	suite.Long(t, suite.Machine)
	connections := 10_000
	if testing.Short() {
		connections = 2_000
	}
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.SameHost(t)
		balancer, _, service := oneServerWithoutTimeout(t, mode, place, place)
		memory, kernel := balancer.Memory(t), harness.TCPMemory(t)

		crowd := place.Program(t, programs.CrowdProgram, programs.CrowdSpec{Address: service, Connections: connections})
		var first, second programs.CrowdReport
		crowd.Next(t, &first)
		grown := balancer.Memory(t) - memory
		kernelGrown := harness.TCPMemory(t) - kernel
		if most := int64(connections) * idleMemory; !balancer.IsEnvoy() && grown > most {
			t.Errorf("daemon memory for %d idle connections: got %d bytes, want at most %d, %d for each", connections, grown, most, idleMemory)
		}
		crowd.Ask(t, "again", &second)

		for _, report := range []programs.CrowdReport{first, second} {
			if report.Answered != connections {
				t.Errorf("answered: got %d, want %d: %q", report.Answered, connections, report.Problems)
			}
		}
		t.Logf("%d connections opened and asked in %v, asked again in %v; daemon %d kB, %d kB more than idle (%.2f kB per connection); TCP memory %d kB more",
			connections, first.Elapsed, second.Elapsed, (memory+grown)>>10, grown>>10,
			float64(grown)/1024/float64(connections), kernelGrown>>10)
	})
}

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// transfers draws bodies whose sizes spread over all magnitudes up to 64 MiB,
// with every framing in both directions, until they add up to total bytes.
func transfers(seed uint64, total int64) []programs.Transfer {
	const largest = 64 << 20
	random := rand.New(rand.NewPCG(seed, 2))
	size := func() int64 {
		if random.IntN(8) == 0 {
			return 0
		}
		return random.Int64N(1 << (1 + random.IntN(22)))
	}
	uploads := []string{programs.FramingLength, programs.FramingLength, programs.FramingChunked}
	downloads := []string{programs.FramingLength, programs.FramingLength, programs.FramingChunked, programs.FramingClose}
	draw := func(upload, download int64) programs.Transfer {
		return programs.Transfer{
			Seed: random.Uint64(), Upload: upload, Download: download,
			UploadFraming:   uploads[random.IntN(len(uploads))],
			DownloadFraming: downloads[random.IntN(len(downloads))],
		}
	}
	all := []programs.Transfer{draw(largest, 0), draw(0, largest), draw(0, 0), draw(largest, largest/4), draw(1, 1)}
	sum := int64(2*largest + largest + largest/4)
	for sum < total {
		next := draw(size(), size())
		if random.IntN(3) == 0 {
			next.Upload = 0
		}
		sum += next.Upload + next.Download
		all = append(all, next)
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func TestEveryBodyArrivesWhole(t *testing.T) {
	for _, topology := range topologies {
		t.Run(topology.name, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				clients, servers := topology.places(t)
				service := harness.Service()
				_, addresses := origins(t, servers, harness.Identities(3)...)
				harness.Start(t, mode, harness.OneCluster(service, addresses...), clients)
				total := int64(1 << 30)
				if testing.Short() {
					total = 400 << 20
				}
				requireTransfers(t, clients, programs.TransferSpec{
					Address: service.String(), Clients: 64, Transfers: transfers(42, total), Timeout: 4 * time.Minute,
				})
			})
		})
	}
}

// The kernel moves the beginning of a long response by a worker, and the daemon sends the rest over TCP: a client is woken when there is something to read,
// and not before. A recv() that blocks fails with EAGAIN otherwise.
func TestBlockingClientsGetLongResponsesOfOtherHosts(t *testing.T) {
	harness.Beside(t)
	var bodies []programs.Transfer
	for i := range uint64(24) {
		bodies = append(bodies, programs.Transfer{Seed: i + 1, Download: 3_000_000 + int64(i)*500_000, DownloadFraming: programs.FramingLength})
	}
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		clients, servers := harness.TwoHosts(t)
		service := harness.Service()
		_, addresses := origins(t, servers, harness.Identities(2)...)
		balancer := harness.Start(t, mode, harness.OneCluster(service, addresses...), clients)
		for _, style := range []string{programs.StyleBlocking, programs.StylePollOnce} {
			t.Run(style, func(t *testing.T) {
				requireTransfers(t, clients, programs.TransferSpec{
					Address: service.String(), Style: style, Clients: 2, Transfers: bodies, Timeout: await.Patience,
				})
			})
		}
		if mode.Fast && balancer.Metric(t, "xlb_spills_total", `reason="full"`) == 0 {
			t.Error("no response went on through the daemon: the test does not test what it says")
		}
	})
}

// TCP joins what it sends again: a program then sees a segment that begins before the end of the last. How often that happens is TCP's
// affair, so the rounds go on until it has.
func TestEveryBodyArrivesWholeOverALossyWire(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.Beside(t)
	const rounds = 60
	if !harness.FastPath(t) {
		t.Skip("without the fast path TCP reads for itself")
	}
	clients, servers := harness.TwoHosts(t)
	service := harness.Service()
	_, addresses := origins(t, servers, harness.Identities(3)...)
	balancer := harness.Start(t, harness.Mode{Fast: true}, harness.OneCluster(service, addresses...), clients)
	clients.LoseData(t, 16)
	servers.LoseAcknowledgements(t, 16)
	random := rand.New(rand.NewPCG(7, 7))
	for range rounds {
		var bodies []programs.Transfer
		for range 600 {
			bodies = append(bodies, programs.Transfer{
				Seed: random.Uint64(), Upload: random.Int64N(2_000), UploadFraming: programs.FramingLength,
				Download: random.Int64N(4_000), DownloadFraming: programs.FramingLength, Crumbs: true,
			})
		}
		requireTransfers(t, clients, programs.TransferSpec{
			Address: service.String(), Clients: 64, Transfers: bodies, Timeout: 4 * time.Minute,
		})
		if balancer.Metric(t, "xlb_verdicts_total", `verdict="segment_trimmed"`) > 0 {
			return
		}
	}
	t.Errorf("no segment overlapped another in %d rounds: the test does not test what it says", rounds)
}

// The kernel moves 256 KiB of a chunked request, and of one with a length as much as the endpoint keeps up with; the daemon sends the rest behind
// it, on the same connection to the same endpoint.
func TestLongRequestsGoOnWhereTheKernelStops(t *testing.T) {
	harness.Beside(t)
	const limit = 256 << 10
	for _, framing := range []string{programs.FramingChunked, programs.FramingLength} {
		var bodies []programs.Transfer
		for i, size := range []int64{0, 1, 1000, limit - 1000, limit - 1, limit, limit + 1, 2 * limit, 3_000_000, 20_000_000} {
			bodies = append(bodies, programs.Transfer{
				Seed: uint64(i + 1), Upload: size, UploadFraming: framing, Download: size, DownloadFraming: framing,
			})
		}
		for range 3 {
			bodies = append(bodies, bodies...)
		}
		for _, topology := range topologies {
			t.Run(fmt.Sprintf("%s/%s", framing, topology.name), func(t *testing.T) {
				harness.Beside(t)
				harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
					clients, servers := topology.places(t)
					service := harness.Service()
					_, addresses := origins(t, servers, harness.Identities(2)...)
					balancer := harness.Start(t, mode, harness.OneCluster(service, addresses...), clients)
					requireTransfers(t, clients, programs.TransferSpec{
						Address: service.String(), Clients: 4, Transfers: bodies, Timeout: 4 * time.Minute,
					})
					balancer.RequireFast(t, mode, 0.7)
					if mode.Fast && framing == programs.FramingChunked && balancer.Metric(t, "xlb_handovers_total", `reason="body_spilled"`) == 0 {
						t.Error("no body went on through the daemon: the test does not test what it says")
					}
				})
			})
		}
	}
}

// Long responses stay in the kernel while the client keeps up; from the first byte on for which there is no room, the daemon sends them. The
// clients read faster and more slowly than the servers send, and stop in between.
func TestLongResponsesGoOnWhereTheKernelStops(t *testing.T) {
	harness.Beside(t)
	for _, topology := range topologies {
		for _, framing := range []string{programs.FramingLength, programs.FramingChunked} {
			// From another host all that has no length is the daemon's.
			if framing == programs.FramingChunked && topology.name == twoHosts {
				continue
			}
			for _, pauses := range []time.Duration{0, 2 * time.Millisecond} {
				t.Run(fmt.Sprintf("%s/%s/pauses %v", topology.name, framing, pauses), func(t *testing.T) {
					if pauses == 0 && (testing.Short() || harness.Emulated()) {
						t.Skip("-short, or emulated: those that pause also read fast in between")
					}
					harness.Beside(t)
					requireLongResponses(t, topology, framing, pauses)
				})
			}
		}
	}
}

// longResponses are bodies of many lengths around those where the kernel stops, and the most of them that may spill to clients that keep up
// mostly: of long ones in crumbs all, since each crumb counts for much more than its bytes.
func longResponses(framing string) (bodies []programs.Transfer, most float64) {
	const limit, window = 256 << 10, 2 << 20
	sizes := []int64{0, 1000, limit - 1000, limit - 1, limit, limit + 1, 2 * limit, 1 << 20, window - limit, window, window + limit, 2 * window, 5_000_001, 4 * window}
	copiesOf, longest := 6, int64(4*window)
	if harness.Emulated() {
		// The rest would take such a processor many minutes, and has nothing new for the kernel.
		copiesOf, longest = 1, window+limit
	}
	for i, size := range sizes {
		if size > longest {
			continue
		}
		for crumbs := range 2 {
			for copies := range copiesOf {
				bodies = append(bodies, programs.Transfer{
					Seed: uint64(100*i + 10*crumbs + copies), Download: size, DownloadFraming: framing, Crumbs: crumbs == 1,
				})
			}
		}
	}
	if !harness.Emulated() {
		for range 8 {
			bodies = append(bodies, programs.Transfer{Seed: 7, Download: 50_000_000, DownloadFraming: framing})
		}
	}
	for _, b := range bodies {
		switch {
		case b.Crumbs && b.Download > limit/2:
			most++
		case b.Download > limit:
			most += 0.9
		}
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(bodies), func(i, j int) { bodies[i], bodies[j] = bodies[j], bodies[i] })
	return bodies, most
}

func requireLongResponses(t *testing.T, topology topology, framing string, pauses time.Duration) {
	t.Helper()
	bodies, most := longResponses(framing)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		clients, servers := topology.places(t)
		service := harness.Service()
		_, addresses := origins(t, servers, harness.Identities(2)...)
		balancer := harness.Start(t, mode, harness.OneCluster(service, addresses...), clients)
		requireTransfers(t, clients, programs.TransferSpec{
			Address: service.String(), Clients: 8, Transfers: bodies, Pauses: pauses, Timeout: 4 * time.Minute,
		})
		spilled := balancer.Metric(t, "xlb_spills_total", `reason="full"`)
		if mode.Fast && pauses > 0 && spilled == 0 {
			t.Error("no response went on through the daemon: the test does not test what it says")
		}
		if spilled > most {
			t.Errorf("spilled responses: got %.0f, want at most %.0f: these clients leave less unread", spilled, most)
		}
		t.Logf("%.0f of %d responses spilled", spilled, len(bodies))
	})
}

// What the daemon sends on of a request waits in the server's TCP queue, and what a program moves is read before that. So while the server
// has not read, the next request must not take the same connection, though the response has ended.
func TestNextRequestDoesNotOvertakeABodyThatTheServerHasNotRead(t *testing.T) {
	harness.Beside(t)
	if !harness.FastPath(t) {
		t.Skip("without the fast path all bytes take one way")
	}
	const chunk = 50_000
	for _, body := range []struct {
		name, field, before, behind, end string
		chunks                           int
	}{
		{"chunked", "Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n", chunk), "\r\n", "0\r\n\r\n", 8},
		// Beyond what may lie in a server unread, 2 MiB.
		{"length", fmt.Sprintf("Content-Length: %d", 48*chunk), "", "", "", 48},
	} {
		t.Run(body.name, func(t *testing.T) {
			place, service := harness.SameHost(t), harness.Service()
			servers, addresses := origins(t, place, "server")
			balancer := harness.Start(t, harness.Mode{Fast: true}, harness.OneCluster(service, addresses...), place)
			client := place.Puppet(t)
			conn := client.Pull(t, programs.Pull{Do: programs.PuppetDial, Address: service.String()}).Conn
			send := func(bytes string) {
				client.Pull(t, programs.Pull{Do: programs.PuppetSend, Conn: conn, Bytes: []byte(bytes)})
			}
			send("POST /early HTTP/1.1\r\nHost: e2e.test\r\n" + body.field + "\r\n\r\n")
			for range body.chunks {
				send(body.before + strings.Repeat("x", chunk) + body.behind)
			}
			if body.end != "" {
				send(body.end)
			}
			harness.Eventually(t, await.Patience, "response and request have ended", func() bool {
				return servers[0].State(t).Held == 1 && balancer.Metric(t, "xlb_leases_active") == 0
			})
			if balancer.Metric(t, "xlb_handovers_total", `reason="body_spilled"`) == 0 {
				t.Error("no body went on through the daemon: the test does not test what it says")
			}
			requireStatus(t, runExchange(t, place, service, faultTimeout, programs.Step{Send: get("/ok")}, programs.Step{Receive: true}), 200)
			servers[0].Release(t)
			harness.Eventually(t, await.Patience, "the server has read the whole body", func() bool {
				return servers[0].State(t).Late == int64(chunk*body.chunks)
			})
		})
	}
}

// nginx asks FIONREAD whether there is more, and waits for another event if there is not.
func TestServerIsToldOfWhatTheDaemonSendsOn(t *testing.T) {
	harness.Beside(t)
	const chunk, chunks = 50_000, 20
	for _, read := range []string{programs.ReadFIONREAD, programs.ReadPlain} {
		t.Run(read, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				place, service := harness.SameHost(t), harness.Service()
				server := place.Manners(t, programs.MannersSpec{Identity: "server", Read: read})
				balancer := harness.Start(t, mode, harness.OneCluster(service, server.Address), place)
				client := place.Puppet(t)
				conn := client.Pull(t, programs.Pull{Do: programs.PuppetDial, Address: service.String()}).Conn
				got := ""
				pull := func(pull programs.Pull) {
					pull.Conn = conn
					for _, n := range client.Pull(t, pull).News {
						got += string(n.Bytes)
					}
				}
				send := func(text string) { pull(programs.Pull{Do: programs.PuppetSend, Bytes: []byte(text)}) }
				send("POST /" + programs.WritePlain + "?size=0&seed=1 HTTP/1.1\r\nHost: e2e.test\r\nTransfer-Encoding: chunked\r\n\r\n")
				for range chunks {
					send(fmt.Sprintf("%x\r\n%s\r\n", chunk, strings.Repeat("x", chunk)))
				}
				send("0\r\n\r\n")
				harness.Eventually(t, await.Patience, "the server has answered", func() bool {
					pull(programs.Pull{Do: programs.PuppetLook, Patience: 10 * time.Millisecond})
					return strings.HasSuffix(got, "\r\n\r\n")
				})
				if want := fmt.Sprintf("%s: %d ", programs.UploadDigest, chunk*chunks); !strings.Contains(got, want) {
					t.Errorf("answer %q has no %q", got, want)
				}
				if !strings.Contains(got, programs.ReadOddly+": \r\n") {
					t.Errorf("the server read oddly: %q", got)
				}
				if mode.Fast && balancer.Metric(t, "xlb_handovers_total", `reason="body_spilled"`) == 0 {
					t.Error("no body went on through the daemon: the test does not test what it says")
				}
			})
		})
	}
}

func TestResponseIsLargerThanFourGigabytes(t *testing.T) {
	suite.Long(t, suite.Slow)
	if testing.Short() {
		t.Skip("-short: half a minute, and minutes in an emulator")
	}
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		_, addresses := origins(t, place, "server")
		balancer := harness.Start(t, mode, harness.OneCluster(service, addresses...), place)
		requireTransfers(t, place, programs.TransferSpec{
			Address: service.String(), Clients: 1, Timeout: 4 * time.Minute,
			Transfers: []programs.Transfer{{Seed: 1, Download: 1<<32 + 1<<20}, {Seed: 2, Download: 10}},
		})
		t.Logf("segments that overlapped: %v", balancer.Metric(t, "xlb_verdicts_total", `verdict="segment_trimmed"`))
	})
}

// requireTransfers fails when a body differs or a connection has another peer
// than the service.
func requireTransfers(t *testing.T, place *harness.Place, spec programs.TransferSpec) programs.TransferReport {
	t.Helper()
	var report programs.TransferReport
	place.Program(t, programs.TransferProgram, spec).Next(t, &report)
	for i, problem := range report.Problems {
		if i == 10 {
			t.Errorf("… and %d more problems", len(report.Problems)-i)
			break
		}
		t.Error(problem)
	}
	if report.Done != len(spec.Transfers) {
		t.Errorf("transfers done: got %d, want %d", report.Done, len(spec.Transfers))
	}
	if len(report.Peers) != 1 || report.Peers[spec.Address] == 0 {
		t.Errorf("addresses of getpeername: got %v, want only %s", report.Peers, spec.Address)
	}
	t.Logf("%d transfers, %d MB in %v", report.Done, report.Bytes>>20, report.Elapsed)
	return report
}

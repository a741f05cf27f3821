// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
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
	topologies := []struct {
		name   string
		places func(testing.TB) (clients, servers *harness.Place)
	}{
		{"same host", func(t testing.TB) (*harness.Place, *harness.Place) {
			place := harness.SameHost(t)
			return place, place
		}},
		{"cross host", harness.TwoHosts},
	}
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

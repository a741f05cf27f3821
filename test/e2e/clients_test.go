// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/body"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

func TestEveryStyleOfSystemCallsWorks(t *testing.T) {
	harness.Beside(t)
	const mib = 1 << 20
	var bodies []programs.Transfer
	for i := range uint64(40) {
		bodies = append(bodies,
			programs.Transfer{Seed: 1000 + i, Download: 100},
			programs.Transfer{Seed: 2000 + i, Upload: 100_000, Download: 1000},
		)
	}
	bodies = append(bodies,
		programs.Transfer{Seed: 1, Download: 8 * mib},
		programs.Transfer{Seed: 2, Upload: 8 * mib, Download: 10},
		programs.Transfer{Seed: 3, Upload: mib, Download: 4 * mib, UploadFraming: programs.FramingChunked, DownloadFraming: programs.FramingChunked},
		programs.Transfer{Seed: 4, Download: 64 * mib},
		programs.Transfer{Seed: 5, Download: 1},
	)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		_, addresses := origins(t, place, harness.Identities(2)...)
		balancer := harness.Start(t, mode, harness.OneCluster(service, addresses...), place)
		for _, style := range []string{
			programs.StyleGo, programs.StyleBlocking, programs.StylePoll,
			programs.StyleEpoll, programs.StyleEpollShort, programs.StyleURing,
		} {
			t.Run(style, func(t *testing.T) {
				report := requireTransfers(t, place, programs.TransferSpec{
					Address: service.String(), Style: style, Clients: 2, Transfers: bodies, Timeout: await.Patience,
				})
				if len(report.ServedBy) != 2 {
					t.Errorf("servers: got %v, want both", report.ServedBy)
				}
			})
		}
		balancer.RequireFast(t, mode, 0.5)
	})
}

// filesToServe makes a directory with a file of each size, and their digests.
func filesToServe(t *testing.T, sizes ...int64) (dir string, digests map[int64]string) {
	t.Helper()
	dir, digests = t.TempDir(), map[int64]string{}
	for _, size := range sizes {
		file, err := os.Create(filepath.Join(dir, strconv.FormatInt(size, 10)))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(file, body.New(uint64(size), size))
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		digests[size] = body.Digest(uint64(size), size)
	}
	return dir, digests
}

func TestCurlGetsFilesOfNginxWithAndWithoutSendfile(t *testing.T) {
	harness.Beside(t)
	curl := harness.Command(t, "curl")
	sizes := []int64{1, 4096, 100_000, 3_000_000, 30_000_000}
	dir, digests := filesToServe(t, sizes...)
	for _, sendfile := range []bool{true, false} {
		t.Run(fmt.Sprintf("sendfile=%v", sendfile), func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				place, service := harness.SameHost(t), harness.Service()
				nginx := place.Nginx(t, harness.Nginx{Identity: "files", Sendfile: sendfile, Root: dir})
				harness.Start(t, mode, harness.OneCluster(service, nginx.Address), place)

				// One curl, one connection, every file twice.
				got := t.TempDir()
				argv := []string{curl, "--silent", "--show-error", "--fail", "--max-time", "60"}
				for _, size := range append(sizes, sizes...) {
					out := filepath.Join(got, strconv.FormatInt(size, 10))
					argv = append(argv, "-o", out, fmt.Sprintf("http://%s/files/%d", service, size))
				}
				argv = append(argv, "-w", "%{num_connects} %{remote_ip}:%{remote_port}\n")
				output := place.Run(t, argv...).Output(t, 90*time.Second)

				if want := "1 " + service.String(); !strings.HasPrefix(output, want+"\n") {
					t.Errorf("connections and peer: got %q, want %q first", output, want)
				}
				for _, size := range sizes {
					content, err := os.ReadFile(filepath.Join(got, strconv.FormatInt(size, 10)))
					if err != nil {
						t.Fatal(err)
					}
					if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != digests[size] {
						t.Errorf("file of %d bytes differs: got %d bytes", size, len(content))
					}
				}
			})
		})
	}
}

func TestCurlUploadsWithExpectContinue(t *testing.T) {
	harness.Beside(t)
	curl := harness.Command(t, "curl")
	const size = 5_000_000
	dir, digests := filesToServe(t, size)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		_, addresses := origins(t, place, "server")
		harness.Start(t, mode, harness.OneCluster(service, addresses...), place)
		output := place.Run(t, curl, "--silent", "--show-error", "--fail", "--max-time", "30",
			"-H", "Expect: 100-continue", "--data-binary", "@"+filepath.Join(dir, strconv.Itoa(size)),
			"-D", "-", "-o", "/dev/null", fmt.Sprintf("http://%s/body?seed=1&size=10", service)).Output(t, 60*time.Second)
		if !strings.Contains(strings.ToLower(output), digests[size]) {
			t.Errorf("the server got another body than curl sent:\n%s", output)
		}
	})
}

//go:embed clients/http_client.py
var httpClientPython string

func TestRealClientsWork(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.Beside(t)
	const requests = 2000
	tests := []struct {
		name string
		// argv of the client; the program is looked up first.
		argv func(service netip.AddrPort) []string
		// check returns why the output does not show success.
		check func(output string, service netip.AddrPort) error
		// fast is the share that the kernel must serve. HTTP/1.0, which ab
		// speaks, may all be handed over.
		fast float64
	}{
		{
			name: "wrk", fast: 0.95,
			argv: func(s netip.AddrPort) []string {
				return []string{"wrk", "-t2", "-c32", "-d2s", fmt.Sprintf("http://%s/", s)}
			},
			check: func(output string, _ netip.AddrPort) error {
				if strings.Contains(output, "Non-2xx") || strings.Contains(output, "Socket errors") {
					return errors.New("wrk saw errors")
				}
				return matches(output, `(?m)^\s+[1-9]\d{2,} requests in`)
			},
		},
		{
			name: "ab",
			argv: func(s netip.AddrPort) []string {
				return []string{"ab", "-q", "-k", "-c", "16", "-n", strconv.Itoa(requests), fmt.Sprintf("http://%s/", s)}
			},
			check: allComplete,
		},
		{
			name: "ab without keep-alive",
			argv: func(s netip.AddrPort) []string {
				return []string{"ab", "-q", "-c", "16", "-n", strconv.Itoa(requests), fmt.Sprintf("http://%s/", s)}
			},
			check: allComplete,
		},
		{
			name: "fortio", fast: 0.95,
			argv: func(s netip.AddrPort) []string {
				return []string{"fortio", "load", "-quiet", "-json", "-", "-c", "16", "-qps", "0", "-n", strconv.Itoa(requests), fmt.Sprintf("http://%s/", s)}
			},
			check: func(output string, _ netip.AddrPort) error {
				var result struct{ RetCodes map[string]int }
				if err := json.Unmarshal([]byte(output), &result); err != nil {
					return err
				}
				if result.RetCodes["200"] != requests || len(result.RetCodes) != 1 {
					return fmt.Errorf("results by code: got %v, want %d of 200", result.RetCodes, requests)
				}
				return nil
			},
		},
		{
			name: "python http.client", fast: 0.9,
			argv: func(s netip.AddrPort) []string {
				return []string{"python3", "-c", httpClientPython, s.Addr().String(), strconv.Itoa(int(s.Port())), "400", "/body?seed=3&size=700"}
			},
			check: func(output string, s netip.AddrPort) error {
				if want := fmt.Sprintf("%d %s", 400*700, s); strings.TrimSpace(output) != want {
					return fmt.Errorf("got %q, want %q", output, want)
				}
				return nil
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			program := harness.Command(t, tt.argv(netip.AddrPort{})[0])
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				place, service := harness.SameHost(t), harness.Service()
				_, addresses := origins(t, place, "server-a", "server-b")
				balancer := harness.Start(t, mode, harness.OneCluster(service, addresses...), place)
				argv := append([]string{program}, tt.argv(service)[1:]...)
				output := place.Run(t, argv...).Output(t, 60*time.Second)
				if err := tt.check(output, service); err != nil {
					t.Errorf("%v\n%s", err, output)
				}
				if tt.fast > 0 {
					balancer.RequireFast(t, mode, tt.fast)
				}
			})
		})
	}
}

// allComplete checks the summary of ab.
func allComplete(output string, _ netip.AddrPort) error {
	if strings.Contains(output, "Non-2xx") {
		return errors.New("ab saw other answers than 2xx")
	}
	return errors.Join(
		matches(output, `(?m)^Complete requests:\s+2000$`),
		matches(output, `(?m)^Failed requests:\s+0$`))
}

func matches(output, pattern string) error {
	if !regexp.MustCompile(pattern).MatchString(output) {
		return fmt.Errorf("the output has no %q", pattern)
	}
	return nil
}

func TestFIONREADTellsWhatCanBeRead(t *testing.T) {
	harness.Beside(t)
	whole := get("/")
	tests := []struct {
		name  string
		steps []programs.Step
	}{
		{"served fast", []programs.Step{{Send: whole}, {Queued: true}, {Receive: true}}},
		// A head in two writes is what the kernel hands over.
		{"served slow", []programs.Step{{Send: whole[:10]}, {Send: whole[10:]}, {Queued: true}, {Receive: true}}},
	}
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		_, addresses := origins(t, place, "server")
		balancer := harness.Start(t, mode, harness.OneCluster(service, addresses...), place)
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				report := runExchange(t, place, service, faultTimeout, tt.steps...)
				requireStatus(t, report, 200)
				if len(report.Queues) != 1 {
					t.Errorf("FIONREAD was asked %d times, want once", len(report.Queues))
				}
				for _, q := range report.Queues {
					// More may arrive between the two calls, never less.
					if q.FIONREAD <= 0 || q.FIONREAD > q.Read {
						t.Errorf("FIONREAD: got %d where a read gave %d bytes", q.FIONREAD, q.Read)
					}
				}
			})
		}
		if fast, slow := balancer.Served(t); mode.Fast && (fast != 1 || slow != 1) {
			t.Errorf("served: got %.0f fast and %.0f slow, want one each", fast, slow)
		}
	})
}

// Of a client that asks for SO_ZEROCOPY before it connects no program sees anything: that it has ended its side says nothing of the other one.
func TestHalfClosedClientThatNoProgramSeesGetsItsAnswer(t *testing.T) {
	harness.Beside(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		_, addresses := origins(t, place, "server")
		harness.Start(t, mode, harness.OneCluster(service, addresses...), place)
		spec := programs.ExchangeSpec{
			Address: service.String(), Timeout: faultTimeout, Zerocopy: true,
			Steps: []programs.Step{{Send: get("/slow?ms=400")}, {HalfClose: true}, {Receive: true}, {End: true}},
		}
		var report programs.ExchangeReport
		place.Program(t, programs.ExchangeProgram, spec).Next(t, &report)
		requireStatus(t, report, 200)
	})
}

func TestHalfClosedClientGetsItsAnswer(t *testing.T) {
	harness.Beside(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		_, addresses := origins(t, place, "server")
		if harness.Envoy() {
			// Envoy ends an HTTP/1 connection that its client half-closes.
			// That the server answers it directly shows what to expect.
			service = addresses[0]
		} else {
			harness.Start(t, mode, harness.OneCluster(service, addresses...), place)
		}
		for _, size := range []int{1, 100_000, 20_000_000} {
			t.Run(fmt.Sprintf("%d bytes", size), func(t *testing.T) {
				report := runExchange(t, place, service, faultTimeout,
					programs.Step{Send: get(fmt.Sprintf("/body?seed=9&size=%d", size))},
					programs.Step{HalfClose: true}, programs.Step{Receive: true}, programs.Step{End: true})
				requireStatus(t, report, 200)
				for _, r := range report.Replies {
					if r.BodyError != "" || r.Size != size {
						t.Errorf("body: got %d of %d bytes, error %q", r.Size, size, r.BodyError)
					}
				}
			})
		}
	})
}

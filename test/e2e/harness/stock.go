// SPDX-License-Identifier: Apache-2.0

package harness

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

//go:embed python/early_server.py
var earlyServerPython string

//go:embed python/post_then_get.py
var postThenGetPython string

// stockFiles are what the stock server has beside what nobody may ask for.
const stockFiles = 7

// StockServer is Python's file server: it answers POST with 501 by HTTP/1.0, and closes, before it has read any of the body.
type StockServer struct {
	Address netip.AddrPort
	// log gets a line for each request that the server executes.
	log string
}

// StockServer starts one.
func (p *Place) StockServer(t testing.TB) *StockServer {
	t.Helper()
	dir := t.TempDir()
	for i := range stockFiles {
		name := strconv.Itoa(i)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &StockServer{Address: netip.AddrPortFrom(p.Address, p.FreePort(t)), log: filepath.Join(t.TempDir(), "log")}
	server := p.Run(t, Command(t, "python3"), "-c", earlyServerPython, p.Address.String(), strconv.Itoa(int(s.Address.Port())), dir, s.log)
	var ready string
	server.Next(t, &ready)
	return s
}

// Unsent counts the requests that were executed and that no stock client sends, by their first lines.
func (s *StockServer) Unsent(t testing.TB) (executed int, unsent map[string]int) {
	t.Helper()
	content, err := os.ReadFile(s.log)
	if err != nil {
		t.Fatal(err)
	}
	sent := map[string]bool{"POST /public HTTP/1.1": true}
	for i := range stockFiles {
		sent[fmt.Sprintf("GET /%d HTTP/1.1", i)] = true
	}
	unsent = map[string]int{}
	for line := range strings.Lines(string(content)) {
		executed++
		if line = strings.TrimSuffix(line, "\n"); !sent[line] {
			unsent[line]++
		}
	}
	return executed, unsent
}

// StockCounts is what a stock client has counted: see python/post_then_get.py.
type StockCounts struct {
	Pairs, Refused, Lost, Right, Wrong, Reset, Kept int
	// Resets say how the first requests without an answer ended.
	Resets []string
}

// StockClient starts a session that posts and then gets, so many times, with bodies that are made of requests.
func (p *Place) StockClient(t testing.TB, service netip.AddrPort, pairs int) *Process {
	t.Helper()
	return p.Run(t, Command(t, "python3"), "-c", postThenGetPython,
		service.Addr().String(), strconv.Itoa(int(service.Port())), strconv.Itoa(pairs), strconv.Itoa(stockFiles))
}

// StockCounts waits until a stock client has made its pairs.
func (p *Process) StockCounts(t testing.TB, patience time.Duration) (counts StockCounts) {
	t.Helper()
	output := p.Output(t, patience)
	if err := json.Unmarshal([]byte(output), &counts); err != nil {
		t.Fatalf("output of the client: %v: %s", err, output)
	}
	return counts
}

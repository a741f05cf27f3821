// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Count is something that the ledger counts.
type Count int

// What became of requests, from the client's side, and what else is counted.
const (
	Requests Count = iota
	// CalmRequests have no fault in their plans; what others' faults do to them is another matter.
	CalmRequests
	CalmOK
	// OK counts responses that were right to the last byte.
	OK
	// TunnelOK counts upgrades whose every byte came back.
	TunnelOK
	// Left counts requests that the client gave up by plan.
	Left
	// Errors that the client could see.
	Reset
	ResetInResponse
	Closed
	ClosedInHead
	ClosedInBody
	LocalBadRequest
	LocalTimeout
	LocalBadGateway
	LocalUnavailable
	LocalGatewayTimeout
	ConnectFailed
	// Unanswered counts second requests of a pair whose first answer ended the connection.
	Unanswered
	// KilledShort counts bodies without framing that ended with the life of their server.
	KilledShort
	// ServerRequests counts requests that reached a server.
	ServerRequests
	// RequestBytes and ResponseBytes have been compared, by server and client.
	RequestBytes
	ResponseBytes
	countOfCounts
)

// CountNames are the names of all counts, in their order.
var CountNames = [countOfCounts]string{
	"requests", "calm_requests", "calm_ok", "ok", "tunnel_ok", "left_by_plan",
	"reset", "reset_in_response", "closed", "closed_in_head", "closed_in_body",
	"local_400", "local_408", "local_502", "local_503", "local_504", "connect_failed", "unanswered", "short_server_killed",
	"server_requests", "request_bytes", "response_bytes",
}

// IsVisibleError tells the counts of errors that a client saw.
func (c Count) IsVisibleError() bool { return c >= Reset && c <= KilledShort }

// Failure is something that must not happen.
type Failure struct {
	At   time.Time
	Side string
	What string
	ID   ID
	// Offset of the first byte that differs.
	Offset    int64  `json:",omitempty"`
	Want, Got string `json:",omitempty"`
	// Server that answered, with its generation.
	Server string `json:",omitempty"`
	// UnlessKilled: nothing is wrong if that server has been killed.
	UnlessKilled bool `json:",omitempty"`
	Plan         *Plan
}

// Words of the ledger's memory.
const (
	connWords   = maxProcesses * maxConns
	countsStart = 0
	sentStart   = 512
	seenStart   = sentStart + connWords
	ledgerWords = seenStart + connWords
)

// Ledger is memory that all processes of a run share and that outlives each of
// them: counters, one bit per identity sent and per identity seen, and a file of
// failures.
type Ledger struct {
	memory   []byte
	words    []uint64
	failures *os.File
}

// FailuresFile is the name of the file of failures in the ledger's directory: a line of JSON for each.
const FailuresFile = "failures.jsonl"

// OpenLedger opens the ledger of a directory, and makes it if there is none.
func OpenLedger(dir string) (*Ledger, error) {
	file, err := os.OpenFile(filepath.Join(dir, "ledger"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	defer file.Close()
	// Most of it is never touched: the file has holes.
	if err := file.Truncate(ledgerWords * 8); err != nil {
		return nil, fmt.Errorf("size the ledger: %w", err)
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, ledgerWords*8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the ledger: %w", err)
	}
	failures, err := os.OpenFile(filepath.Join(dir, FailuresFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the file of failures: %w", err), unix.Munmap(memory))
	}
	words := unsafe.Slice((*uint64)(unsafe.Pointer(&memory[0])), ledgerWords)
	return &Ledger{memory: memory, words: words, failures: failures}, nil
}

// Close releases the memory.
func (l *Ledger) Close() error { return errors.Join(l.failures.Close(), unix.Munmap(l.memory)) }

func (l *Ledger) count(c Count) { l.add(c, 1) }

func (l *Ledger) add(c Count, n int64) { atomic.AddUint64(&l.words[countsStart+int(c)], uint64(n)) }

// Counts returns all counts as they are now.
func (l *Ledger) Counts() (counts [countOfCounts]uint64) {
	for i := range counts {
		counts[i] = atomic.LoadUint64(&l.words[countsStart+i])
	}
	return counts
}

// sent notes that a client is about to send a request.
func (l *Ledger) sent(id ID) { atomic.OrUint64(&l.words[sentStart+word(id)], bit(id)) }

// seen notes that a server has read the head of a request, which must have been
// sent, and not be seen yet by any server.
func (l *Ledger) seen(id ID) error {
	if atomic.LoadUint64(&l.words[sentStart+word(id)])&bit(id) == 0 {
		return errors.New("a request that no client has sent")
	}
	if atomic.OrUint64(&l.words[seenStart+word(id)], bit(id))&bit(id) != 0 {
		return errors.New("a request that came twice")
	}
	return nil
}

func word(id ID) int   { return int(id.Process)*maxConns + int(id.Conn) }
func bit(id ID) uint64 { return 1 << id.Request }

// fail writes a failure down. A line goes in one write, so lines of many
// processes do not mix.
func (l *Ledger) fail(f *Failure) {
	f.At = time.Now()
	line, err := json.Marshal(f)
	if err == nil {
		_, err = l.failures.Write(append(line, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("write down a failure: %v: %+v", err, f))
	}
}

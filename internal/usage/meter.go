// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"sync/atomic"
	"time"
)

// Meter counts what is carried to one destination. It is safe for concurrent use, and never blocks. A nil Meter counts nothing.
type Meter struct {
	requests, requestBytes, responseBytes atomic.Uint64
	slowWork, programTime                 atomic.Int64 // nanoseconds
	// gone: the Ledger has forgotten it.
	gone atomic.Bool
}

// Add counts what was carried.
func (m *Meter) Add(t Traffic) {
	if m == nil {
		return
	}
	m.requests.Add(t.Requests)
	m.requestBytes.Add(t.RequestBytes)
	m.responseBytes.Add(t.ResponseBytes)
	m.slowWork.Add(int64(t.SlowWork))
	m.programTime.Add(int64(t.ProgramTime))
}

// Worked counts time of user space.
func (m *Meter) Worked(d time.Duration) {
	if m != nil {
		m.slowWork.Add(int64(d))
	}
}

// Counts reports whether the Ledger still knows what it counts; another Meter of the destination may.
func (m *Meter) Counts() bool { return m != nil && !m.gone.Load() }

// read is what was counted. What is being added at this moment may be there in part.
func (m *Meter) read() Traffic {
	return Traffic{
		Requests: m.requests.Load(), RequestBytes: m.requestBytes.Load(), ResponseBytes: m.responseBytes.Load(),
		SlowWork: time.Duration(m.slowWork.Load()), ProgramTime: time.Duration(m.programTime.Load()),
	}
}

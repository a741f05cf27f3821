// SPDX-License-Identifier: Apache-2.0

package view

import (
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

// manyClusters is from how many on the page of metrics leaves much behind: some 24 kB for each.
const manyClusters = 256

// returnPace is how often memory is given back: each time all of it is looked through, which takes as long as a page.
const returnPace = time.Minute

// returning gives back to the system what large pages of metrics have taken. Between two of them the runtime would keep it, as one comes every few seconds
// and all else takes little. Of pages that come faster than returnPace some do not: a client that asks often would have the daemon do nothing else.
func returning(metrics http.Handler, clusters func() int) http.Handler {
	give := paced(returnPace, debug.FreeOSMemory)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		metrics.ServeHTTP(w, r)
		if clusters() >= manyClusters {
			give()
		}
	})
}

// paced does something when it is asked to, once in that time. It is safe for concurrent use.
func paced(pace time.Duration, do func()) func() {
	var mu sync.Mutex
	var last time.Time
	return func() {
		mu.Lock()
		now := time.Now()
		due := last.IsZero() || now.Sub(last) >= pace
		if due {
			last = now
		}
		mu.Unlock()
		if due {
			do()
		}
	}
}

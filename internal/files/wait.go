// SPDX-License-Identifier: Apache-2.0

package files

import (
	"sync"
	"time"
)

// Glance is how long who looks at many files waits for those that others do not need to be whole: what takes longer is there with a later look.
const Glance = time.Second

// Wait waits for all who look at files, but no longer than most, unless that is 0, and not beyond stop, which may be nil. Those who are late go on.
func Wait(all *sync.WaitGroup, most time.Duration, stop <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		all.Wait()
	}()
	var late <-chan time.Time
	if most > 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-done:
	case <-late:
	case <-stop:
	}
}

// SPDX-License-Identifier: Apache-2.0

package files

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitEndsWithTheLastTheTimeOrTheStop(t *testing.T) {
	const long = time.Hour
	for _, tt := range []struct {
		name              string
		works, most, want time.Duration
		stopped           bool
	}{
		{"all have ended", time.Second, long, time.Second, false},
		{"one is late", long, time.Second, time.Second, false},
		{"no bound", long, 0, long, false},
		{"stopped", long, 0, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var all sync.WaitGroup
				all.Go(func() { time.Sleep(tt.works) })
				// Its channel belongs to this bubble.
				var stop chan struct{}
				if tt.stopped {
					stop = make(chan struct{})
					close(stop)
				}
				began := time.Now()
				Wait(&all, tt.most, stop)
				if took := time.Since(began); took != tt.want {
					t.Errorf("waited %v, want %v", took, tt.want)
				}
				all.Wait()
			})
		})
	}
}

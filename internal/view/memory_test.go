// SPDX-License-Identifier: Apache-2.0

package view

import (
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

// However often metrics are asked for, the whole heap is not looked through more than once in a while.
func TestMemoryIsGivenBackNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := 0
		give := paced(returnPace, func() { done++ })
		for range 600 {
			give()
			time.Sleep(time.Second)
		}
		if done != 10 {
			t.Errorf("memory was given back %d times in ten minutes of a page each second, want 10", done)
		}
	})
}

// Pages beyond the first cost no collection.
func TestScrapesDoNotCollectEachTime(t *testing.T) {
	page := returning(http.NotFoundHandler(), func() int { return manyClusters })
	var before, after debug.GCStats
	scrape := func() {
		page.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	}
	scrape()
	debug.ReadGCStats(&before)
	for range 50 {
		scrape()
	}
	debug.ReadGCStats(&after)
	if n := after.NumGC - before.NumGC; n > 10 {
		t.Errorf("%d collections for 50 pages", n)
	}
}

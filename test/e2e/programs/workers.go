// SPDX-License-Identifier: Apache-2.0

package programs

import "sync"

// atOnce runs work as often as told, at the same time. It returns how much went well in all, and the first few failures.
func atOnce(times int, work func() (good int, failures []string)) (good int, failures []string) {
	var (
		mu sync.Mutex // guards the results
		wg sync.WaitGroup
	)
	for range times {
		wg.Go(func() {
			well, failed := work()
			mu.Lock()
			defer mu.Unlock()
			good += well
			failures = append(failures, failed...)
		})
	}
	wg.Wait()
	return good, failures[:min(len(failures), maxFailures)]
}

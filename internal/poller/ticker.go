// SPDX-License-Identifier: Apache-2.0

package poller

import "time"

// NewTicker sends at that pace while due reports true, which must not wait, until stop is called. A send that has not been received stands for those behind it. After
// an error nothing is sent.
func NewTicker(pace time.Duration, due func() bool) (call <-chan struct{}, stop func(), err error) {
	c := make(chan struct{}, 1)
	beat, err := Every(func(time.Time) time.Duration {
		if due() {
			select {
			case c <- struct{}{}:
			default: // it has yet to be received
			}
		}
		return pace
	})
	if err != nil {
		return c, func() {}, err
	}
	return c, beat.Stop, nil
}

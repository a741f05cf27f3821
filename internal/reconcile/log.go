// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/logging"
)

// logActive logs that an image is in force, if anything was written for it.
func (r *Reconciler) logActive(im *compile.Image) {
	r.written.Add(uint64(r.stats.Total()))
	if r.stats.Total() == 0 {
		return
	}
	level := slog.LevelInfo
	if !r.limiter.allow(r.now()) {
		level = slog.LevelDebug
	}
	r.log.Log(context.Background(), level, "configuration is in force",
		"listeners", len(im.Listeners), "clusters", len(im.Clusters), "writes", r.stats.Total(), "suppressed", logging.NonZero(r.limiter.suppressed))
	if level == slog.LevelInfo {
		r.limiter.suppressed = 0
	}
}

// Written is the sum of the writes of all images that have been put in force. What was written later, to erase what was before, is not counted.
func (r *Reconciler) Written() uint64 { return r.written.Load() }

// A control plane may change something a hundred times a second: of many changes in a row the first logBurst are logged, and then one in logEvery.
const (
	logBurst = 10
	logEvery = 10 * time.Second
)

// logLimiter paces what is logged of changes.
type logLimiter struct {
	limiter *rate.Limiter
	// suppressed counts changes since the last one that was logged.
	suppressed int
}

func newLogLimiter() logLimiter {
	return logLimiter{limiter: rate.NewLimiter(rate.Every(logEvery), logBurst)}
}

// allow reports whether to log a change at this time, and counts it otherwise.
func (l *logLimiter) allow(now time.Time) bool {
	if l.limiter.AllowN(now, 1) {
		return true
	}
	l.suppressed++
	return false
}

// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"maps"
	"time"

	"github.com/xlb-project/xlb/internal/netns"
)

const (
	// firstRetry is how long a namespace waits that could not be joined once. It doubles with each failure, up to lastRetry.
	firstRetry = time.Second
	lastRetry  = time.Minute
	// maxRetries bounds the namespaces that wait. They are those of one scan, and those reported since.
	maxRetries = 4096
	// maxInfos is how many lines a second there may be about workloads that join and leave.
	maxInfos = 10
)

// retries are the namespaces that could not be joined.
type retries map[netns.Inode]retry

type retry struct {
	// cookie is 0 where it could not be found out.
	cookie uint64
	pause  time.Duration
	// at is the end of the pause.
	at time.Time
	// err is the last failure.
	err error
}

// mustWait reports whether a namespace is not to be tried yet. cookie is 0 where it is not known. One with another cookie is a new namespace, which has got
// the inode of one that has ended.
func (r retries) mustWait(inode netns.Inode, cookie uint64, now time.Time) bool {
	last, ok := r[inode]
	return ok && now.Before(last.at) && last.isOf(cookie)
}

// fail notes a failure.
func (r retries) fail(inode netns.Inode, cookie uint64, err error, now time.Time) {
	last, ok := r[inode]
	pause := firstRetry
	if ok && last.isOf(cookie) {
		pause = min(2*last.pause, lastRetry)
	}
	if !ok && len(r) >= maxRetries {
		r.dropAny()
	}
	r[inode] = retry{cookie, pause, now.Add(pause), err}
}

func (r retries) dropAny() {
	for inode := range r {
		delete(r, inode)
		return
	}
}

// keep forgets all namespaces but those that a scan has found.
func (r retries) keep(found map[netns.Inode]int) {
	maps.DeleteFunc(r, func(inode netns.Inode, _ retry) bool { return found[inode] == 0 })
}

func (r retry) isOf(cookie uint64) bool { return cookie == 0 || r.cookie == 0 || cookie == r.cookie }

// quota is of lines in one second.
type quota struct {
	began time.Time
	used  int
}

// take reports whether there may be one more.
func (q *quota) take(now time.Time) bool {
	if now.Sub(q.began) >= time.Second {
		*q = quota{began: now}
	}
	if q.used == maxInfos {
		return false
	}
	q.used++
	return true
}

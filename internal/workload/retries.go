// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"time"

	"github.com/xlb-project/xlb/internal/netns"
)

const (
	// firstRetry is how long a namespace waits that could not be joined once. It doubles with each failure, up to lastRetry.
	firstRetry = time.Second
	lastRetry  = time.Minute
	// maxRetries bounds the namespaces that wait, and maxRetriesOfOne those of one maker: others of it are not tried meanwhile. They are those of one scan, and
	// those reported since.
	maxRetries      = 4096
	maxRetriesOfOne = maxRetries / 8
	// maxInfos is how many lines a second there may be about workloads that join and leave, and maxWarnings how many about what fails, one for each cause.
	maxInfos    = 10
	maxWarnings = 20
)

// retries are the namespaces that could not be joined.
type retries struct {
	byInode map[netns.Inode]retry
	// of is how many of them each maker has.
	of map[string]int
}

func newRetries() retries { return retries{byInode: map[netns.Inode]retry{}, of: map[string]int{}} }

type retry struct {
	// maker has made it.
	maker string
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
	last, ok := r.byInode[inode]
	return ok && now.Before(last.at) && last.isOf(cookie)
}

// mayTry reports whether a namespace may be tried that does not wait: where too many of its maker do it may not.
func (r retries) mayTry(inode netns.Inode, maker string) bool {
	_, ok := r.byInode[inode]
	return ok || r.of[maker] < maxRetriesOfOne
}

// fail notes a failure.
func (r retries) fail(inode netns.Inode, cookie uint64, maker string, err error, now time.Time) {
	last, ok := r.byInode[inode]
	pause := firstRetry
	if ok && last.isOf(cookie) {
		pause = min(2*last.pause, lastRetry)
	}
	if r.drop(inode); len(r.byInode) >= maxRetries {
		r.dropAny()
	}
	r.byInode[inode] = retry{maker: maker, cookie: cookie, pause: pause, at: now.Add(pause), err: err}
	r.of[maker]++
}

// drop forgets a namespace.
func (r retries) drop(inode netns.Inode) {
	last, ok := r.byInode[inode]
	if !ok {
		return
	}
	delete(r.byInode, inode)
	if r.of[last.maker]--; r.of[last.maker] == 0 {
		delete(r.of, last.maker)
	}
}

func (r retries) dropAny() {
	for inode := range r.byInode {
		r.drop(inode)
		return
	}
}

// keep forgets all namespaces but those that a scan has found.
func (r retries) keep(found map[netns.Inode]int) {
	for inode := range r.byInode {
		if found[inode] == 0 {
			r.drop(inode)
		}
	}
}

// ofNumber are those with that inode number.
func (r retries) ofNumber(number uint64) (list []netns.Inode) {
	for inode := range r.byInode {
		if inode.Number == number {
			list = append(list, inode)
		}
	}
	return list
}

func (r retry) isOf(cookie uint64) bool { return cookie == 0 || r.cookie == 0 || cookie == r.cookie }

// lines are those of the log in one second.
type lines struct {
	began time.Time
	used  int
	// causes are what has been warned of.
	causes map[string]bool
}

func (l *lines) begin(now time.Time) {
	if now.Sub(l.began) >= time.Second {
		*l = lines{began: now, causes: map[string]bool{}}
	}
}

// take reports whether there may be one more.
func (l *lines) take(now time.Time) bool {
	l.begin(now)
	if l.used == maxInfos {
		return false
	}
	l.used++
	return true
}

// warn reports whether there may be one of that cause: one that lasts, or that a maker of namespaces has last, is not to silence others.
func (l *lines) warn(cause string, now time.Time) bool {
	l.begin(now)
	if l.causes[cause] || len(l.causes) == maxWarnings {
		return false
	}
	l.causes[cause] = true
	return true
}

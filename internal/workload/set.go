// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/internal/poller"
	"github.com/xlb-project/xlb/internal/quota"
)

// Config is what a Set needs. All fields but Most, CgroupMount, ViewOf, ViewsBy, ViewName, AwaitView, ViewChanged, InUse and HasAccount are required where Others is set.
type Config struct {
	// Own is the daemon's own network namespace.
	Own *Workload
	// Cgroups are the cgroup v2 directories whose processes are balanced.
	Cgroups []string
	// Others says that network namespaces other than the own one are served.
	Others bool
	// NoOwn says that the own one is left alone.
	NoOwn bool
	// Names are directories of files that are network namespaces. One that gets a file there is joined before a process of it connects.
	Names []string
	// Labelled says that pods alone are served whose labels ask for it.
	Labelled bool
	// Join opens what serves a workload, and leaves nothing open where it fails: the next workload may get the same number. There is one call of Join or
	// Leave at a time.
	Join func(w *Workload) error
	// Leave closes what serves a workload. false: it is in use again, and stays as it was. At the end of the Set it leaves all the same.
	Leave func(w *Workload) (left bool)
	// Withdraw ends the balancing of a workload's new connections; those that are open are served on. Announce takes that back.
	Withdraw, Announce func(w *Workload) error
	// Exclude has the kernel programs leave one alone that is not served, and report it no more.
	Exclude func(w *Workload) error
	// Forget receives one that was withdrawn and has left, or was excluded, when its processes have ended, or before it joins again.
	Forget func(w *Workload)
	// Most bounds how many namespaces are served or left alone, beside the daemon's own; 0: nothing does. One maker of them may have an eighth of what is
	// left free.
	Most int
	// CgroupMount is where cgroup v2 is mounted, and has the owners of cgroups; empty: all are taken for root's.
	CgroupMount string
	// ViewOf chooses the view of a workload; nil: it is 0 for all. It is called with the Set's locks held: it must not wait, nor call the Set. That of the own
	// namespace is chosen by NewSet. Where it has come to choose others, ChooseViews is to be called.
	ViewOf func(f Facts) (view uint32)
	// ViewsBy returns what views depend on: a workload is not served before that is known of it. It is required with ViewOf, and called as that is.
	ViewsBy func() Basis
	// ViewName is what the operator calls a view other than 0, in the log; nil: its number is all there is.
	ViewName func(view uint32) string
	// AwaitView returns when a view is there that ViewOf has chosen, or its time is up: a pod's containers wait for it. nil: all are there at once. It is called
	// without locks.
	AwaitView func(view uint32)
	// ViewChanged receives workloads that see another view than they were served with.
	ViewChanged func(list []*Workload)
	// InUse reports whether connections of a workload are open: it does not leave before they have closed. nil: no connection ever is.
	InUse func(id ID) bool
	// HasAccount reports whether connections count in the account with that number still, when its last workload has left: the next one of the same maker
	// counts in it, too. nil: none ever do.
	HasAccount func(number ID) bool
	Logger     *slog.Logger
}

// Counts are of the network namespaces other than the daemon's own.
type Counts struct {
	// Joined are those that are or were served, Failed the attempts to serve one that failed, Left those that are served no more.
	Joined, Failed, Left uint64
	// Released counts calls of Release, Rejoined calls of Join that took one back.
	Released, Rejoined uint64
	// Excluded counts those that labels left out.
	Excluded uint64
	// Refused counts attempts to serve one that were refused: its maker has too many.
	Refused uint64
	// Open is how many are served.
	Open int
	// Joins is how long it took to serve those that have joined, from the kernel's report of each, or from when it was found.
	Joins Durations
}

// Set finds the workloads of this daemon, and follows them while they have processes. It is safe for concurrent use.
type Set struct {
	cfg    Config
	finder finder
	// events are what the kernel has reported of namespaces that it does not know.
	events chan event
	// now is time.Now.
	now func() time.Time
	// makers is who has how many of the namespaces that are served or left alone. An entry is taken and returned with work held.
	makers *quota.Table[string]

	// work is held by the goroutine that joins and leaves. It guards what follows up to mu.
	work    sync.Mutex
	retries retries
	names   *names
	pods    *pods
	// asked is the inode number of a namespace that is to be served whatever labels say, while it is being joined; 0: no namespace is.
	asked uint64
	// again is the workload that is being taken back, of which nothing is open; nil otherwise. What is known of it stays known.
	again *Workload
	// isUnscanned: namespaces have joined by the kernel's reports since the last scan, which finds their oldest processes. Or some were refused, of a maker
	// that has so many reported that those of others may be lost: a scan finds them.
	isUnscanned bool
	// awaited are namespaces with a name whose loopback interface is down.
	awaited []awaited
	// scanAt is when the next scan may begin, nameAt when names may be looked at again.
	scanAt, nameAt time.Time

	// mu guards what follows, for moments.
	mu sync.Mutex
	// byID and byCookie have the workloads that are served but the own one, released the released ones of which nothing is open any more, by the cookies of
	// their namespaces.
	byID               map[ID]*Workload
	byCookie, released map[uint64]*Workload
	// accounts are those of makers that have namespaces.
	accounts map[string]*account
	// paths has a name of each namespace that has one.
	paths map[netns.Inode]string
	// last is the number that was given last.
	last   ID
	counts Counts
	lines  lines
	// others is how many workloads are served, followed how many with the released ones, for callers that hold no lock.
	others, followed atomic.Int32
	// isLost: there was no room for a report of the kernel since the last scan.
	isLost atomic.Bool
}

// event says that a thread of a namespace has connected to a service address.
type event struct {
	cookie uint64
	tid    int
	at     time.Time
}

const (
	// queued bounds the events that wait. The kernel reports a namespace once a second until it is served.
	queued = 1024
	// lookPace is between two looks whether workloads have processes still.
	lookPace = 2 * time.Second
	// scanPause is the least between two scans, however many namespaces the kernel reports that none finds, and scanRest how many times the duration of
	// the last one: a tenth of the time at most goes into scans.
	scanPause = 500 * time.Millisecond
	scanRest  = 10
	// namePause is scanPause for looks at names: a runtime gives a namespace its name some 100 ms before a process runs in it.
	namePause = 5 * time.Millisecond
	// advance is how long a namespace with a name is served that has no process yet, and loopbackPause between two looks whether its loopback interface is up.
	advance       = time.Minute
	loopbackPause = 50 * time.Millisecond
)

// NewSet makes a Set that has the daemon's own network namespace alone, until Scan or Run finds others.
func NewSet(c Config) *Set {
	if c.ViewOf != nil && !c.NoOwn {
		c.Own.See(c.ViewOf(Facts{Host: true}))
	}
	return &Set{
		cfg: c, finder: finder{proc: "/proc", cgroups: c.Cgroups}, names: newNames(c.Names), pods: newPods(), events: make(chan event, queued),
		now: time.Now, makers: newMakers(c.Most), retries: newRetries(), byID: map[ID]*Workload{}, byCookie: map[uint64]*Workload{}, released: map[uint64]*Workload{}, accounts: map[string]*account{},
		counts: Counts{Joins: newDurations()},
	}
}

// Scan joins the namespaces of all processes in the cgroups. It returns when each has been tried; the error is of cgroups and processes that could not be
// looked at. Run or Close ends what it has begun.
func (s *Set) Scan() error {
	if !s.cfg.Others {
		return nil
	}
	s.work.Lock()
	defer s.work.Unlock()
	// Names that are there join nothing: the processes do.
	s.lookAtNames()
	return s.scan()
}

// Seen takes a report of the kernel: a thread, by its number in the initial pid namespace, has connected to a service address from a network namespace that
// is not served. It does not wait. What it has no room for the kernel reports again, and a scan finds it.
func (s *Set) Seen(cookie uint64, tid int) {
	if !s.cfg.Others || s.isKnown(cookie) {
		return
	}
	select {
	case s.events <- event{cookie, tid, s.now()}:
	default:
		s.isLost.Store(true)
	}
}

// Run joins namespaces that were seen, and lets those leave that have no process any more, until ctx ends. Then all leave.
func (s *Set) Run(ctx context.Context) {
	defer s.Close()
	if !s.cfg.Others {
		<-ctx.Done()
		return
	}
	look, stop, err := poller.NewTicker(lookPace, func() bool { return s.followed.Load() > 0 })
	defer stop()
	if err != nil {
		s.cfg.Logger.Error("network namespaces without processes stay open", "err", err)
	}
	mounts, stopMounts := s.watchMounts()
	defer stopMounts()
	s.serve(ctx, look, mounts)
}

func (s *Set) serve(ctx context.Context, look, mounts <-chan struct{}) {
	scan, names := newPaced(), newPaced()
	defer scan.stop()
	defer names.stop()
	for {
		isWanted := false
		select {
		case <-ctx.Done():
			return
		case <-look:
			s.closeReleased()
			isWanted = s.hasUnsettled()
		case e := <-s.events:
			isWanted = !s.admit(e)
		case <-mounts:
			names.want(s.until(&s.nameAt))
		case <-names.due():
			names.done()
			if s.joinNamed() {
				names.want(max(loopbackPause, s.until(&s.nameAt)))
			}
		case <-scan.due():
			scan.done()
			s.scanAgain()
		}
		if isWanted {
			scan.want(s.until(&s.scanAt))
		}
	}
}

// until is how long to wait for what may begin at that time, which the holder of work sets.
func (s *Set) until(at *time.Time) time.Duration {
	s.work.Lock()
	defer s.work.Unlock()
	return at.Sub(s.now())
}

// Get returns a workload; nil: it has left.
func (s *Set) Get(id ID) *Workload {
	if id == Host {
		return s.cfg.Own
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

// list returns the workloads other than the own one, in the order of their numbers.
func (s *Set) list() []*Workload {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*Workload, 0, len(s.byID))
	for _, id := range slices.Sorted(maps.Keys(s.byID)) {
		list = append(list, s.byID[id])
	}
	return list
}

// HasOthers reports whether workloads other than the own one are served. It waits for no lock.
func (s *Set) HasOthers() bool { return s.others.Load() > 0 }

// Counts returns the current counts.
func (s *Set) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Open = len(s.byID)
	c.Joins = c.Joins.clone()
	return c
}

// isKnown reports whether a namespace is served, or released.
func (s *Set) isKnown(cookie uint64) bool {
	if cookie == s.cfg.Own.Netns {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byCookie[cookie] != nil || s.released[cookie] != nil
}

// admit joins the namespace that the kernel reports, and reports false where the thread does not lead to it: it has ended, has another namespace by now, or
// is numbered by another pid namespace.
func (s *Set) admit(e event) bool {
	s.work.Lock()
	defer s.work.Unlock()
	if s.isKnown(e.cookie) {
		return true
	}
	path := s.finder.namespaceOf(e.tid)
	inode, err := netns.InodeOf(path)
	switch {
	case isGone(err):
		return false
	case err != nil:
		s.failed(err, path, "")
		return true
	case s.retries.mustWait(inode, e.cookie, s.now()):
		return true
	}
	maker, ok := s.makerOf(inode, e.tid)
	switch {
	case !ok:
		return false
	case !s.mayJoin(inode, path, maker):
		s.isUnscanned = true
		return true
	}
	c := s.open(inode, path, maker)
	switch {
	case c == nil:
		return false
	case c.cookie != e.cookie:
		c.namespace.Close()
		// The thread's own namespace is reported when it connects.
		return false
	}
	c.witness, c.isReported, c.since = e.tid, true, e.at
	s.isUnscanned = true
	s.join(c)
	return true
}

// scanAgain is scan for a namespace of which the process is not known, or the end of a workload. Workloads leave that have no process, and no connection
// that is open.
func (s *Set) scanAgain() {
	s.work.Lock()
	defer s.work.Unlock()
	err := s.scan()
	if err != nil && s.mayWarn("scan") {
		s.cfg.Logger.Warn("looking for the network namespaces of processes failed; will retry", "err", err)
	}
	if isIncomplete(err) {
		return
	}
	for _, w := range s.unused() {
		if w.isReleased {
			s.closeOneReleased(w)
			continue
		}
		if s.leave(w) {
			w.Logger(s.cfg.Logger).Log(context.Background(), s.level(), "a network namespace has no process left that is balanced", "netns", w.inode.Number, "netns_cookie", w.Netns)
		}
	}
}

// leave closes what serves a workload, and forgets it, unless it is in use again. A process that is in the namespace later makes it another workload. The
// caller holds work.
func (s *Set) leave(w *Workload) (left bool) {
	if !s.cfg.Leave(w) {
		return false
	}
	s.drop(w)
	return true
}

// scan finds the processes of all workloads anew, and joins those that are not served. The caller holds work.
func (s *Set) scan() error {
	began := s.now()
	s.isLost.Store(false)
	found, err := s.finder.find()
	if !isIncomplete(err) {
		s.retries.keep(found.oldest)
		s.isUnscanned = false
	}
	var seen []*Workload
	for _, w := range s.list() {
		// A thread with a namespace of its own is found by its report alone.
		if oldest := found.oldest[w.inode]; oldest != 0 || !s.isWitnessed(w) {
			// 0 where the namespace has no process.
			s.setWitness(w, oldest)
			s.identifyByOldest(w)
			s.obey(w)
			seen = append(seen, w)
		}
		delete(found.oldest, w.inode)
	}
	s.compareViews(seen...)
	s.keepReleased(found.oldest, isIncomplete(err))
	strangers := s.strangers(found.oldest)
	// To join what it has found takes time once.
	looked := s.now()
	s.scanAt = looked.Add(max(scanPause, scanRest*looked.Sub(began)))
	for _, one := range strangers {
		s.joinOf(one.maker, one.inode, one.pid)
	}
	if !isIncomplete(err) {
		s.forgetMakers(strangers)
	}
	if found.denied != nil && s.mayWarn("denied") {
		s.cfg.Logger.Warn("the network namespaces of some processes cannot be seen", "err", found.denied, "remedy", remedy(found.denied))
	}
	return err
}

// add has a workload found, which goes before anything of it is served.
func (s *Set) add(w *Workload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[w.ID], s.byCookie[w.Netns] = w, w
	s.countLocked()
}

func (s *Set) forget(w *Workload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, w.ID)
	delete(s.byCookie, w.Netns)
	s.countLocked()
}

func (s *Set) countLocked() {
	s.others.Store(int32(len(s.byID)))
	s.followed.Store(int32(len(s.byID) + len(s.released)))
}

// mayWarn is true once a second for each cause.
func (s *Set) mayWarn(cause string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines.warn(cause, s.now())
}

// level is that of a line about a workload that joins or leaves: who makes network namespaces decides how many there are.
func (s *Set) level() slog.Level {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lines.take(s.now()) {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// hasUnsettled reports whether a scan is needed: the oldest process of a namespace is not known or has ended, and another one may be there, or the first one
// may have come.
func (s *Set) hasUnsettled() bool {
	s.work.Lock()
	defer s.work.Unlock()
	return s.isUnscanned || s.isLost.Load() || len(s.unused()) > 0 || slices.ContainsFunc(s.list(), s.isExpected) || slices.ContainsFunc(s.list(), s.isUnidentified) || slices.ContainsFunc(s.releasedList(), s.mustLookFor)
}

// unused are workloads whose witness has ended or left the namespace, and of which no connection is open. The caller holds work.
func (s *Set) unused() (list []*Workload) {
	for _, w := range s.list() {
		if !s.isWitnessed(w) && !s.isInAdvance(w) && !s.isInUse(w.ID) {
			list = append(list, w)
		}
	}
	return list
}

// isExpected reports whether the first process of a namespace is awaited, to be known.
func (s *Set) isExpected(w *Workload) bool {
	return w.witness == 0 && !w.hadProcess && s.isInAdvance(w)
}

// isUnidentified reports whether the process that was to tell which pod or container a namespace is of has ended without. The next scan finds another.
func (s *Set) isUnidentified(w *Workload) bool {
	return !w.isIdentified() && w.witness != 0 && !s.isWitnessed(w)
}

// isInAdvance reports whether a process may be about to enter the namespace.
func (s *Set) isInAdvance(w *Workload) bool {
	hasPath, isNamed := s.pathOf(w.inode) != "", s.isNamed(w)
	if w.hadProcess {
		// A container that starts again may be the only one: some runtimes have no process of the pod beside it. What has a name is held by that.
		return hasPath && isNamed
	}
	return s.now().Before(w.advance) && (hasPath || isNamed)
}

// isNamed reports whether a container runtime reports a workload's pod. The caller holds work.
func (s *Set) isNamed(w *Workload) bool {
	if w.pod == nil {
		return false
	}
	_, ok := s.pods.bySandbox[w.pod.Sandbox]
	return ok
}

func (s *Set) setWitness(w *Workload, pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.witness = pid
	if pid != 0 {
		w.advance, w.hadProcess = time.Time{}, true
	}
}

func (s *Set) isWitnessed(w *Workload) bool {
	if w.witness == 0 {
		return false
	}
	inode, err := netns.InodeOf(s.finder.namespaceOf(w.witness))
	return err == nil && inode == w.inode
}

// drop forgets a workload that has left. The caller holds work.
func (s *Set) drop(w *Workload) {
	s.forget(w)
	s.returnEntry(w)
	w.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Left++
}

// Close has all leave, whether they are in use or not. Run ends so, too: it is for a start that has failed behind Scan. The kernel programs go on to leave
// alone what they were to, as long as they are there: with --when-down=fail they refuse connections of namespaces that they do not know.
func (s *Set) Close() {
	s.work.Lock()
	defer s.work.Unlock()
	for _, w := range s.list() {
		s.cfg.Leave(w)
		s.drop(w)
	}
	for _, w := range s.releasedList() {
		s.returnEntry(w)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.released)
	s.countLocked()
}

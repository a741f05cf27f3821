// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/internal/poller"
)

// Config is what a Set needs. All fields but InUse are required where Others is set.
type Config struct {
	// Own is the daemon's own network namespace.
	Own *Workload
	// Cgroups are the cgroup v2 directories whose processes are balanced.
	Cgroups []string
	// Others says that network namespaces other than the own one are served.
	Others bool
	// Join opens what serves a workload, and leaves nothing open where it fails. Leave closes it. There is one call of either at a time.
	Join  func(w *Workload) error
	Leave func(w *Workload)
	// InUse reports whether connections of a workload are open: it does not leave before they have closed. nil: no connection ever is.
	InUse  func(id ID) bool
	Logger *slog.Logger
}

// Counts are of the network namespaces other than the daemon's own.
type Counts struct {
	// Joined are those that are or were served, Failed the attempts to serve one that failed, Left those that have no process any more.
	Joined, Failed, Left uint64
	// Open is how many are served.
	Open int
}

// Set finds the workloads of this daemon, and follows them while they have processes. It is safe for concurrent use.
type Set struct {
	cfg    Config
	finder finder
	// events are what the kernel has reported of namespaces that it does not know.
	events chan event
	// work is held by the goroutine that joins and leaves.
	work sync.Mutex

	// mu guards what follows, for moments.
	mu sync.Mutex
	// byID and byCookie have the workloads but the own one, by the cookie of their namespace.
	byID     map[ID]*Workload
	byCookie map[uint64]*Workload
	// last is the number that was given last.
	last   ID
	counts Counts
	warned time.Time
}

// event says that a thread of a namespace has connected to a service address.
type event struct {
	cookie uint64
	tid    int
}

const (
	// queued bounds the events that wait. The kernel reports a namespace once a second until it is served.
	queued = 64
	// lookPace is between two looks whether workloads have processes still.
	lookPace = 2 * time.Second
	// scanPause is between two scans for what the kernel reports, however many namespaces it reports that none finds.
	scanPause = 500 * time.Millisecond
)

// NewSet makes a Set that has the daemon's own network namespace alone, until Scan or Run finds others.
func NewSet(c Config) *Set {
	return &Set{
		cfg: c, finder: finder{proc: "/proc", cgroups: c.Cgroups}, events: make(chan event, queued),
		byID: map[ID]*Workload{}, byCookie: map[uint64]*Workload{},
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
	return s.scan()
}

// Seen takes a report of the kernel: a thread, by its number in the initial pid namespace, has connected to a service address from a network namespace that
// is not served. It does not wait. What it has no room for the kernel reports again.
func (s *Set) Seen(cookie uint64, tid int) {
	if !s.cfg.Others || s.isServed(cookie) {
		return
	}
	select {
	case s.events <- event{cookie, tid}:
	default:
	}
}

// Run joins namespaces that were seen, and lets those leave that have no process any more, until ctx ends. Then all leave.
func (s *Set) Run(ctx context.Context) {
	defer s.Close()
	if !s.cfg.Others {
		<-ctx.Done()
		return
	}
	look, stop, err := poller.NewTicker(lookPace, func() bool { return s.Counts().Open > 0 })
	defer stop()
	if err != nil {
		s.cfg.Logger.Error("network namespaces without processes stay open", "err", err)
	}
	s.serve(ctx, look)
}

func (s *Set) serve(ctx context.Context, look <-chan struct{}) {
	scan := time.NewTimer(scanPause)
	scan.Stop()
	var scanned time.Time
	isDue := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-look:
			s.lookAfter()
		case e := <-s.events:
			if s.admit(e) || isDue {
				continue
			}
			isDue = true
			scan.Reset(scanPause - time.Since(scanned))
		case <-scan.C:
			s.scanAgain()
			isDue, scanned = false, time.Now()
		}
	}
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

// List returns the workloads other than the own one, in the order of their numbers.
func (s *Set) List() []*Workload {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*Workload, 0, len(s.byID))
	for _, id := range slices.Sorted(maps.Keys(s.byID)) {
		list = append(list, s.byID[id])
	}
	return list
}

// Counts returns the current counts.
func (s *Set) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Open = len(s.byID)
	return c
}

func (s *Set) isServed(cookie uint64) bool {
	if cookie == s.cfg.Own.Netns {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byCookie[cookie] != nil
}

// admit joins the namespace that the kernel reports, and reports false where the thread does not lead to it: it has ended, has another namespace by now, or
// is numbered by another pid namespace.
func (s *Set) admit(e event) bool {
	s.work.Lock()
	defer s.work.Unlock()
	if s.isServed(e.cookie) {
		return true
	}
	namespace, err := netns.Open(s.finder.namespaceOf(e.tid))
	if isGone(err) {
		return false
	}
	if err != nil {
		s.failed(err, e.tid)
		return true
	}
	cookie, err := namespace.Cookie()
	switch {
	case err != nil:
		s.failed(err, e.tid)
	case cookie == e.cookie:
		s.join(namespace, cookie, e.tid)
		return true
	}
	namespace.Close()
	return err != nil
}

// scanAgain is scan for a namespace of which the process is not known.
func (s *Set) scanAgain() {
	s.work.Lock()
	defer s.work.Unlock()
	if err := s.scan(); err != nil && s.mayWarn(time.Now()) {
		s.cfg.Logger.Warn("looking for the network namespaces of processes failed; will retry", "err", err)
	}
}

// scan finds the processes of all workloads anew, and joins those that are not served. The caller holds work.
func (s *Set) scan() error {
	found, err := s.finder.find()
	for _, w := range s.List() {
		// 0 where the namespace has no process.
		w.witness = found.oldest[w.inode]
		delete(found.oldest, w.inode)
	}
	for _, pid := range slices.Sorted(maps.Values(found.oldest)) {
		s.joinProcess(pid)
	}
	if found.denied != nil && s.mayWarn(time.Now()) {
		s.cfg.Logger.Warn("the network namespaces of some processes cannot be seen", "err", found.denied, "remedy", remedy(found.denied))
	}
	return err
}

// joinProcess joins the namespace of a process.
func (s *Set) joinProcess(pid int) {
	namespace, err := netns.Open(s.finder.namespaceOf(pid))
	if err != nil {
		if !isGone(err) {
			s.failed(err, pid)
		}
		return
	}
	cookie, err := namespace.Cookie()
	if err != nil {
		namespace.Close()
		s.failed(err, pid)
		return
	}
	s.join(namespace, cookie, pid)
}

// join makes a namespace a workload, unless it is one: the process may have entered it after it was found. It takes the namespace over.
func (s *Set) join(namespace *netns.Namespace, cookie uint64, witness int) {
	if s.isServed(cookie) {
		namespace.Close()
		return
	}
	inode, err := namespace.Inode()
	if err != nil {
		namespace.Close()
		s.failed(err, witness)
		return
	}
	w := New(s.next(), cookie, namespace)
	w.inode, w.witness = inode, witness
	s.add(w)
	if err := s.cfg.Join(w); err != nil {
		s.forget(w)
		w.close()
		s.failed(err, witness)
		return
	}
	s.mu.Lock()
	s.counts.Joined++
	s.mu.Unlock()
	s.cfg.Logger.Info("serving a network namespace", "workload", w.ID, "netns_cookie", cookie, "pid", witness)
}

// next is a number that no workload has had.
func (s *Set) next() ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	return s.last
}

// add has a workload found, which goes before anything of it is served.
func (s *Set) add(w *Workload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[w.ID], s.byCookie[w.Netns] = w, w
}

func (s *Set) forget(w *Workload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, w.ID)
	delete(s.byCookie, w.Netns)
}

// failed counts a namespace that could not be joined, and logs it at most once a second. The next report of the kernel, or scan, will retry.
func (s *Set) failed(err error, pid int) {
	s.mu.Lock()
	s.counts.Failed++
	s.mu.Unlock()
	if s.mayWarn(time.Now()) {
		s.cfg.Logger.Warn("a network namespace is not served; will retry", "pid", pid, "err", err, "remedy", remedy(err))
	}
}

// remedy says what an operator can do; empty: what the error says.
func remedy(err error) string {
	switch {
	case errors.Is(err, unix.EPERM):
		return "CAP_SYS_ADMIN is needed to enter network namespaces"
	case errors.Is(err, unix.EACCES): // ptrace(2), access mode checking
		return "CAP_SYS_PTRACE is needed to find the network namespaces of other users' processes"
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return "is its loopback interface up?"
	}
	return ""
}

// mayWarn is true once a second.
func (s *Set) mayWarn(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.warned) < time.Second {
		return false
	}
	s.warned = now
	return true
}

// lookAfter lets workloads leave that have no process, and no connection that is open.
func (s *Set) lookAfter() {
	s.work.Lock()
	defer s.work.Unlock()
	if len(s.unused()) == 0 {
		return
	}
	// The oldest process has ended. Another one may be there; where that is not known the workload stays.
	if err := s.scan(); err != nil {
		if s.mayWarn(time.Now()) {
			s.cfg.Logger.Warn("looking for processes of network namespaces failed; will retry", "err", err)
		}
		return
	}
	for _, w := range s.unused() {
		s.leave(w)
		s.cfg.Logger.Info("a network namespace has no process left that is balanced", "workload", w.ID, "netns_cookie", w.Netns)
	}
}

// unused are workloads whose witness has ended or left the namespace, and of which no connection is open. The caller holds work.
func (s *Set) unused() (list []*Workload) {
	for _, w := range s.List() {
		if !s.isWitnessed(w) && (s.cfg.InUse == nil || !s.cfg.InUse(w.ID)) {
			list = append(list, w)
		}
	}
	return list
}

func (s *Set) isWitnessed(w *Workload) bool {
	if w.witness == 0 {
		return false
	}
	inode, err := netns.InodeOf(s.finder.namespaceOf(w.witness))
	return err == nil && inode == w.inode
}

// leave closes what serves a workload. A process that is in the namespace later makes it another workload. The caller holds work.
func (s *Set) leave(w *Workload) {
	s.cfg.Leave(w)
	s.forget(w)
	w.close()
	s.mu.Lock()
	s.counts.Left++
	s.mu.Unlock()
}

// Close has all leave. Run ends so, too: it is for a start that has failed behind Scan.
func (s *Set) Close() {
	s.work.Lock()
	defer s.work.Unlock()
	for _, w := range s.List() {
		s.leave(w)
	}
}

// SPDX-License-Identifier: Apache-2.0

package delegate

import (
	"errors"
	"time"
)

const (
	// pace is how often the daemon queries whether the delegate that serves is ready, and patience how many answers in a row may lack before it is ended.
	pace     = 5 * time.Second
	patience = 3
	// firstPause is how long the first restart waits, and mostPause how long each of many does: each takes twice as long as the one before.
	firstPause, mostPause = time.Second, 30 * time.Second
	// steady is how long a process must have served for a restart to count as the first one.
	steady = time.Minute
	// mostRetired is how many former processes may wait for the ends of their connections at a time. Each takes tens of megabytes.
	mostRetired = 2
)

// supervisor is what the loop alone knows.
type supervisor struct {
	*Manager
	pause time.Duration
	retry <-chan time.Time // nil: nothing is to be started again
	// silent counts the answers that lack in a row.
	silent  int
	retired []*instance
}

// run starts and ends processes, until Close.
func (m *Manager) run() {
	defer close(m.ended)
	s := &supervisor{Manager: m, pause: firstPause}
	ask := time.NewTicker(m.o.pace)
	defer ask.Stop()
	for {
		select {
		case <-m.closing:
			s.end()
			return
		case <-m.changed:
			s.pause, s.retry = firstPause, nil
			s.renew()
		case <-s.retry:
			s.retry = nil
			s.renew()
		case <-s.servingEnds():
			s.crashed()
		case <-ask.C:
			s.watch()
		}
	}
}

// servingEnds is closed when the process that serves has ended; nil: there is no such process.
func (s *supervisor) servingEnds() <-chan struct{} {
	if s.serving == nil {
		return nil
	}
	return s.serving.process.Done()
}

// renew has the delegate run with the last configuration.
func (s *supervisor) renew() {
	d := s.latest()
	t, err := d.twin()
	if err != nil {
		s.refuse(Unsupported, err.Error())
		s.log.Warn("the delegate cannot be given the configuration", "err", err)
		return
	}
	if s.serving != nil && same(s.serving.twin, t) {
		s.setState(Ready, "")
		return
	}
	s.makeRoom()
	i, err := s.startInstance(d, t)
	if err != nil {
		s.again("could not be started: " + err.Error())
		return
	}
	err = s.awaitReady(i)
	var refused *refusedError
	switch {
	case err == nil:
		s.took(i)
	case errors.Is(err, errAbandoned):
		i.remove(s.log)
	case errors.As(err, &refused):
		i.remove(s.log)
		s.refuse(Refused, refused.words)
		s.log.Warn("the delegate refuses the configuration", "why", refused.words)
	default:
		i.remove(s.log)
		s.again(err.Error())
	}
}

// took has a process that is ready serve, and the former one retire.
func (s *supervisor) took(i *instance) {
	i.since = time.Now()
	former := s.exchange(i, Ready)
	s.silent = 0
	s.log.Info("the delegate is ready", "pid", i.process.PID(), "version", s.version, "listeners", len(i.twin.Listeners))
	if former != nil {
		s.retire(former)
	}
}

// again starts the last configuration again after a while, which is longer each time.
func (s *supervisor) again(why string) {
	s.refuse(Crashing, why)
	s.log.Warn("the delegate is started again after a while", "why", why, "pause", s.pause)
	s.retry = time.After(s.pause)
	s.pause = min(2*s.pause, mostPause)
}

// crashed is what follows when the process that serves has ended.
func (s *supervisor) crashed() {
	i := s.exchange(nil, Crashing)
	s.count(&s.ends)
	i.remove(s.log)
	if time.Since(i.since) >= steady {
		s.pause = firstPause
	}
	s.again(i.howEnded())
}

// watch ends a process that serves and does not answer: its end is a crash.
func (s *supervisor) watch() {
	if s.serving == nil {
		return
	}
	if s.serving.ready() == nil {
		s.silent = 0
		return
	}
	if s.silent++; s.silent < patience {
		return
	}
	s.silent = 0
	s.serving.killed("did not answer for " + (patience * s.o.pace).String())
}

// makeRoom ends the former processes that have waited longest, until another one may.
func (s *supervisor) makeRoom() {
	s.retired = remaining(s.retired)
	for len(s.retired) >= mostRetired {
		s.retired[0].process.Kill()
		<-s.retired[0].process.Done()
		s.retired = remaining(s.retired)
	}
}

// remaining are those that run.
func remaining(all []*instance) (run []*instance) {
	for _, i := range all {
		select {
		case <-i.process.Done():
		default:
			run = append(run, i)
		}
	}
	return run
}

// retire ends a process when its connections have ended, or the time for that has passed.
func (s *supervisor) retire(i *instance) {
	s.retired = append(s.retired, i)
	s.retiring.Add(1)
	s.o.Spawn(func() {
		defer s.retiring.Done()
		i.drain(s.o.Drain)
		i.remove(s.log)
	})
}

// end ends all processes, and removes what they had.
func (s *supervisor) end() {
	if i := s.exchange(nil, Ended); i != nil {
		s.retire(i)
	}
	s.retiring.Wait()
	s.shutdownErrs = errors.Join(s.directory.remove(), s.confinement.Close())
}

func (s *supervisor) count(n *uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
}

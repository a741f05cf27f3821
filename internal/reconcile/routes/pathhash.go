// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"github.com/xlb-project/xlb/internal/reconcile/writes"
)

// Changing the hash of paths in place.
//
// Here a program reads first which lengths there are, then tries the beginnings of its text from the longest to the shortest,
// and takes the first that is a key. The changes come in the order that a trie's have (trie.go): keys are added, the longest first, then
// replaced, then deleted, the shortest first. A text has one switch as there:
//
//   - If a key is added that is longer than its old one, the longest such key. Shorter keys of it are of no consequence afterwards.
//   - Otherwise, if its old key stays, that one.
//   - Otherwise the deletion of its old key. What it finds then was written before; no other old key lies between, because shorter ones
//     were deleted before.
//
// A look-up takes time, and passes the longer keys of a text first. So it is in danger in the first case alone: it may have passed the
// place of the new key before that was added, and arrive at shorter keys when these have changed as well. So before a key is changed in
// any way we wait for the programs that may have passed a longer one, which it begins, before that was added. In the other cases all is
// decided at the old key: who finds it reads no other, and who does not comes too late for any other change that matters.
//
// A program that does not know of a length would pass by keys of it. So lengths are made known, and programs waited for, before keys have
// them, and are taken back when no key has them any more. A virtual host that would have too many in between gets a new number.
//
// An entry is never exchanged by another one: a look-up that is between the two in their bucket would miss both. maps.Config.PathTexts writes
// into it. That takes two places in turn, so between two writes of one key we wait: each virtual host is changed once before sweep does. And the
// memory of a deleted entry may become that of a new one while a program still reads it: so we wait before a key is added after one
// was deleted.

// hashOrder is that of a virtual host in the hash.
type hashOrder struct {
	vhost   *vhost
	pending *pendingReclaim
	// prefixes are the texts that begin keys which were added since programs were waited for: those as long as keys may be.
	prefixes keySet
}

func (o *hashOrder) mustWait(key string, to change) bool {
	return o.prefixes.has(key) || to == added && o.pending.freed
}

func (o *hashOrder) made(key string, to change) {
	switch to {
	case added:
		o.vhost.lengths.beginnings(key, o.prefixes.add)
	case deleted:
		o.pending.freed = true
	}
}

func (o *hashOrder) waited() { clear(o.prefixes) }

// addLengths makes the lengths of new keys known to all programs.
func (r *Reconciler) addLengths(v *vhost, want []pathEntry) error {
	lengths, _ := v.lengths.with(want)
	if !v.isHashed || lengths == v.lengths {
		return nil
	}
	if err := r.setLengths(v, lengths); err != nil {
		return err
	}
	return r.SynchronizeRCU()
}

// dropLengths leaves the lengths of the keys that there are.
func (r *Reconciler) dropLengths(v *vhost, have []pathEntry) error {
	lengths, _ := pathLengths(0).with(have)
	if !v.isHashed || lengths == v.lengths {
		return nil
	}
	return r.setLengths(v, lengths)
}

func (r *Reconciler) setLengths(v *vhost, lengths pathLengths) error {
	if err := writes.Put(&r.stats.VHosts, r.cfg.VHosts, v.number.First, uint64(lengths)); err != nil {
		return err
	}
	v.lengths, r.pending.hasReaders = lengths, true
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/logging"
	"github.com/xlb-project/xlb/internal/shutdown"
	"github.com/xlb-project/xlb/internal/source/intake"
	"github.com/xlb-project/xlb/internal/source/watch"
)

// pollFiles reads the files of resources now, and whenever they change, until stop.
func (d *dynamic) pollFiles() {
	tick := time.NewTicker(filePace)
	defer tick.Stop()
	for {
		d.takeFiles()
		select {
		case <-d.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// takeFiles puts in force what has changed. Files are read before: while the lock is held, others wait for it.
func (d *dynamic) takeFiles() {
	all := d.files.Look(d.named())
	var needs []config.File
	for _, one := range all {
		needs = append(needs, one.Needs...)
	}
	d.files.ReadAhead(needs)
	if d.ctx.Err() != nil {
		return
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	changed := false
	for _, one := range all {
		changed = d.put(one) || changed
	}
	if !changed {
		return
	}
	if err := d.assembleAndActivate(); err != nil {
		if shutdown.IsRefusal(err) {
			d.log.Error("files of resources were not put in force; the configuration before stays", "err", err)
		}
		return
	}
	for _, f := range d.bootstrap.Load().Dynamic.RootFiles() {
		if d.read[f] != nil {
			d.arrived(fmt.Sprintf("%s from %s", f.Kind, f.Path))
		}
	}
}

// named are the files that the configuration has its resources from. What others held is forgotten.
func (d *dynamic) named() []config.File {
	d.lock.Lock()
	defer d.lock.Unlock()
	list := d.bootstrap.Load().Files()
	named := make(map[config.File]bool, len(list))
	for _, f := range list {
		named[f] = true
	}
	maps.DeleteFunc(d.read, func(f config.File, _ []config.Named) bool { return !named[f] })
	if d.files.Keep(named) {
		d.forgetFiles(list)
	}
	return list
}

// putAhead notes what new files hold that the configuration names, and reports whether there were any that could be used. As a rule they have been read
// before. Needs the lock.
func (d *dynamic) putAhead() bool {
	named, changed := d.bootstrap.Load().Files(), false
	d.files.ReadAhead(named)
	for _, f := range named {
		if one := d.files.TakeAhead(f); one != nil {
			changed = d.put(one) || changed
		}
	}
	return changed
}

// parse checks what a file holds.
func (d *dynamic) parse(f config.File, text []byte) *watch.Content {
	list, err := config.ParseFile(f, text)
	out := &watch.Content{File: f, Err: err}
	for _, one := range list {
		needs, err := d.check(f.Kind, one.Name, one.Body)
		if err == nil && len(needs.References) > 0 {
			err = config.ErrFromFile
		}
		if err == nil {
			out.Needs = append(out.Needs, needs.Files...)
		}
		out.Resources = append(out.Resources, watch.Resource{Named: one, Err: err})
	}
	return out
}

// put notes what a file holds, and reports whether that can be used. Resources that cannot be served stay as they were before. Needs the lock.
func (d *dynamic) put(one *watch.Content) bool {
	f := one.File
	if one.Err != nil {
		d.counters.rejected.Add(1)
		d.log.Error("file of resources refused; what it held before stays in force", "err", one.Err)
		d.intake.Refuse(intake.KeyOf(f), intake.RefusalOf(one.Err), isUnreadable(one.Err))
		return false
	}
	d.takeList(f, one.Resources)
	return true
}

// takeList takes what can be served of what a file holds. Needs the lock.
func (d *dynamic) takeList(f config.File, list []watch.Resource) {
	version := ""
	if len(list) > 0 {
		version = list[0].Version
	}
	before := map[string]config.Named{}
	for _, old := range d.read[f] {
		before[old.Name] = old
	}
	good, wrong, known := []config.Named{}, intake.NewRefusal(version, time.Now()), map[string]fileResource{}
	for _, c := range list {
		if c.Err == nil {
			good = append(good, c.Named)
			known[c.Name] = d.fileResources[f][c.Name].take(before[c.Name].Body, c.Body, wrong)
			continue
		}
		d.log.Error("resource refused; the one before stays in force", "file", f.Path, "name", logging.NonZero(c.Name), "err", c.Err)
		known[c.Name] = d.fileResources[f][c.Name].refuse(c.Named, c.Err, wrong)
		if old, had := before[c.Name]; had {
			good = append(good, old)
		}
	}
	stay, err := d.asksStill(f, list)
	for _, one := range stay {
		known[one.Name] = d.fileResources[f][one.Name]
	}
	if err != nil {
		other := list[0]
		d.log.Error("file of resources refused; what it held before stays in force", "file", f.Path, "holds", other.Name, "asked_for", stay[0].Name)
		known[other.Name] = fileResource{}.refuse(other.Named, err, wrong)
	}
	d.read[f], d.fileResources[f] = append(good, stay...), known
	d.intake.Record(intake.KeyOf(f), version, wrong)
}

// asksStill returns what a file held before, and the configuration asks it for, where the file holds something else now: as in Envoy that is refused,
// and the endpoints or routes stay that there were. The configuration may be about to ask for the new name, in which case they go with the next
// change of the file. The error says that no resource refers to what it holds. Needs the lock.
func (d *dynamic) asksStill(f config.File, holds []watch.Resource) (stay []config.Named, err error) {
	if f.Kind != config.Assignments && f.Kind != config.Routes || len(holds) == 0 {
		return nil, nil
	}
	b := d.bootstrap.Load()
	for _, one := range d.read[f] {
		if one.Name != holds[0].Name && b.Asks(f, one.Name) {
			stay = append(stay, one)
		}
	}
	if len(stay) > 0 && !b.Asks(f, holds[0].Name) {
		d.counters.rejected.Add(1)
		err = fmt.Errorf("%q is asked for, and the file holds another; give it that name", stay[0].Name)
	}
	return stay, err
}

func sortedKeys(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }

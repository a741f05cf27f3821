// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/files"
)

// errFromFile refuses what nobody would ask for.
var errFromFile = errors.New("a resource of a file refers to one of the control plane; use path_config_source in it, or have the control plane send both")

// followFiles reads the files of resources now, and whenever they change, until ctx ends.
func (d *dynamic) followFiles(ctx context.Context) {
	tick := time.NewTicker(filePace)
	defer tick.Stop()
	for {
		d.takeFiles()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// takeFiles puts in force what has changed.
func (d *dynamic) takeFiles() {
	d.n.updates.Lock()
	defer d.n.updates.Unlock()
	if !d.readChanged() {
		return
	}
	if err := d.install(); err != nil {
		d.n.log.Error("files of resources were not put in force; the configuration before stays", "err", err)
		return
	}
	for _, f := range d.bootstrap.Load().Dynamic.RootFiles() {
		if d.read[f] != nil {
			d.arrived(fmt.Sprintf("%s from %s", f.Kind, f.Path))
		}
	}
}

// readChanged reads the files that have changed, or are needed since the last configuration, and reports whether there were any.
// Needs n.updates.
func (d *dynamic) readChanged() bool {
	named := d.bootstrap.Load().Files()
	changed := false
	for _, f := range named {
		if d.watches[f] == nil {
			d.watches[f] = &files.Watch{}
		}
		if stamp, due := d.watches[f].Due(f.Path, time.Now()); due {
			changed = d.readFile(f, stamp) || changed
		}
	}
	had := len(d.watches)
	maps.DeleteFunc(d.watches, func(f config.File, _ *files.Watch) bool { return !slices.Contains(named, f) })
	maps.DeleteFunc(d.read, func(f config.File, _ []config.Named) bool { return !slices.Contains(named, f) })
	if len(d.watches) != had {
		d.forgetFiles(named)
	}
	return changed
}

// readFile reports whether the file could be read. Resources that cannot be served stay as they were before. A file that has changed while it was read
// is read again later. Needs n.updates.
func (d *dynamic) readFile(f config.File, stamp files.Stamp) bool {
	list, err := config.ReadFile(f)
	if !d.watches[f].Take(f.Path, stamp) {
		return false
	}
	if err != nil {
		d.counted.rejected.Add(1)
		d.n.log.Error("file of resources refused; what it held before stays in force", "err", err)
		d.n.intake.refuse(keyOf(f), refusalOf(err), isUnreadable(err))
		return false
	}
	d.takeList(f, list)
	return true
}

// takeList takes what can be served of what a file holds. Needs n.updates.
func (d *dynamic) takeList(f config.File, list []config.Named) {
	version := ""
	if len(list) > 0 {
		version = list[0].Version
	}
	before := map[string]config.Named{}
	for _, one := range d.read[f] {
		before[one.Name] = one
	}
	good, wrong, known := []config.Named{}, newRefusal(version, time.Now()), map[string]fileResource{}
	for _, one := range list {
		references, err := d.check(f.Kind, one.Name, one.Body)
		if err == nil && len(references) > 0 {
			err = errFromFile
		}
		if err != nil {
			d.n.log.Error("resource refused; the one before stays in force", "file", f.Path, "name", one.Name, "err", err)
			known[one.Name] = d.known[f][one.Name].refuse(one, err, wrong)
			if old, had := before[one.Name]; had {
				good = append(good, old)
			}
			continue
		}
		good = append(good, one)
		known[one.Name] = d.known[f][one.Name].take(before[one.Name].Body, one.Body, wrong)
	}
	stay, err := d.asksStill(f, list)
	for _, one := range stay {
		known[one.Name] = d.known[f][one.Name]
	}
	if err != nil {
		other := list[0]
		d.n.log.Error("file of resources refused; what it held before stays in force", "file", f.Path, "holds", other.Name, "asked_for", stay[0].Name)
		known[other.Name] = fileResource{}.refuse(other, err, wrong)
	}
	d.read[f], d.known[f] = append(good, stay...), known
	d.n.intake.settle(keyOf(f), version, wrong)
}

// asksStill returns what a file held before, and the configuration asks it for, where the file holds something else now: as in Envoy that is refused,
// and the endpoints or routes stay that there were. The configuration may be about to ask for the new name, in which case they go with the next
// change of the file. The error says that nobody asks for what it holds. Needs n.updates.
func (d *dynamic) asksStill(f config.File, holds []config.Named) (stay []config.Named, err error) {
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
		d.counted.rejected.Add(1)
		err = fmt.Errorf("%q is asked for, and the file holds another; give it that name", stay[0].Name)
	}
	return stay, err
}

func sortedKeys(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }

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
)

// errFromFile refuses what nobody would ask for.
var errFromFile = errors.New("a resource of a file refers to one of the control plane; use path_config_source in it, or have the control plane send both")

// filePace is how often files of resources are looked at.
const filePace = 250 * time.Millisecond

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
	files := d.bootstrap.Load().Files()
	changed := false
	for _, f := range files {
		now := stampOf(f.Path)
		if before, known := d.stamps[f]; known && now == before {
			continue
		}
		d.stamps[f] = now
		changed = d.readFile(f) || changed
	}
	maps.DeleteFunc(d.stamps, func(f config.File, _ stamp) bool { return !slices.Contains(files, f) })
	maps.DeleteFunc(d.read, func(f config.File, _ []config.Named) bool { return !slices.Contains(files, f) })
	return changed
}

// readFile reports whether the file could be read. Resources that cannot be served stay as they were before. Needs n.updates.
func (d *dynamic) readFile(f config.File) bool {
	list, err := config.ReadFile(f)
	if err != nil {
		d.counted.rejected.Add(1)
		d.n.log.Error("file of resources refused; what it held before stays in force", "err", err)
		return false
	}
	before := map[string]config.Named{}
	for _, one := range d.read[f] {
		before[one.Name] = one
	}
	good := []config.Named{}
	for _, one := range list {
		references, err := d.check(f.Kind, one.Name, one.Body)
		if err == nil && len(references) > 0 {
			err = errFromFile
		}
		if err != nil {
			d.n.log.Error("resource refused; the one before stays in force", "file", f.Path, "name", one.Name, "err", err)
			if old, had := before[one.Name]; had {
				good = append(good, old)
			}
			continue
		}
		good = append(good, one)
	}
	d.read[f] = good
	return true
}

func sortedKeys(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }

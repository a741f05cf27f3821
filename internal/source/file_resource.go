// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/source/intake"
	"github.com/xlb-project/xlb/internal/xds"
)

// fileResource is what is to be shown of a resource of a file, beside its body.
type fileResource struct {
	// version and updated are of what is in force: as in Envoy they stay where the file has changed and the resource has not.
	version string
	updated time.Time
	// wrong is what was refused last; nil: what came last was taken.
	wrong *refusedResource
}

// refusedResource is a resource that is not in force.
type refusedResource struct {
	body    *anypb.Any
	version string
	reason  string
	at      time.Time
}

// take is the resource when what has come now was taken, in place of the body before; nil: it is new.
func (r fileResource) take(before, now *anypb.Any, of *intake.Refusal) fileResource {
	if before != nil && before.TypeUrl == now.TypeUrl && bytes.Equal(before.Value, now.Value) {
		return fileResource{version: r.version, updated: r.updated}
	}
	return fileResource{version: of.Version, updated: of.At}
}

// refuse is the resource when what has come now was refused, which is added to what is wrong with the file.
func (r fileResource) refuse(now config.Named, err error, of *intake.Refusal) fileResource {
	of.Add(now.Name, err)
	r.wrong = &refusedResource{body: now.Body, version: of.Version, reason: intake.ReasonOf(err), at: of.At}
	return r
}

// status is what is known of the resource, which has that body in force, or nil.
func (r fileResource) status(name string, body *anypb.Any) *xds.ResourceStatus {
	s := &xds.ResourceStatus{Name: name, Version: r.version, Body: body, LastUpdate: r.updated, State: xds.Acked}
	if w := r.wrong; w != nil {
		s.State = xds.Nacked
		s.FailedBody, s.FailedVersion, s.Error, s.FailedAt = w.body, w.version, w.reason, w.at
	}
	return s
}

// inFile lists the resources of a file by name. Needs the lock.
func (d *dynamic) inFile(f config.File) (list []*xds.ResourceStatus) {
	bodies := map[string]*anypb.Any{}
	for _, one := range d.read[f] {
		bodies[one.Name] = one.Body
	}
	for _, name := range slices.Sorted(maps.Keys(d.fileResources[f])) {
		r := d.fileResources[f][name]
		if r.updated.IsZero() { // no resource refers to it: it is kept, and not in force
			delete(bodies, name)
		}
		list = append(list, r.status(name, bodies[name]))
	}
	return list
}

// forgetFiles forgets what was known of files that the configuration does not name any more. Needs the lock.
func (d *dynamic) forgetFiles(named []config.File) {
	maps.DeleteFunc(d.fileResources, func(f config.File, _ map[string]fileResource) bool { return !slices.Contains(named, f) })
	d.intake.KeepFiles(named)
}

// isUnreadable reports whether a file holds no list of resources at all, which Envoy counts apart.
func isUnreadable(err error) bool {
	_, is := errors.AsType[*config.UnreadableError](err)
	return is
}

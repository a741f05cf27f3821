// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/workload"
)

// Workloads is what a Status needs of a *workload.Set.
type Workloads interface {
	Counts() workload.Counts
	List() []workload.Info
	Release(inode uint64) (workload.Info, error)
	Join(inode uint64) (workload.Info, error)
}

// Workloads implements admin.Source.
func (s *Status) Workloads() []admin.Workload {
	open, infos, usages := openByWorkload(s.cfg.Anchors.List()), s.cfg.Workloads.List(), s.usages()
	carried := s.destinations()
	rows := make([]admin.Workload, 0, len(infos))
	for i := range infos {
		row := s.workloadRow(&infos[i], open)
		row.Uses = s.uses(infos[i].Account, usages)
		addDestinations(&row, carried[infos[i].ID])
		rows = append(rows, row)
	}
	return rows
}

// ReleaseWorkload implements admin.Source.
func (s *Status) ReleaseWorkload(netns uint64) (admin.Workload, error) {
	return s.changedWorkload(s.cfg.Workloads.Release(netns))
}

// JoinWorkload implements admin.Source.
func (s *Status) JoinWorkload(netns uint64) (admin.Workload, error) {
	return s.changedWorkload(s.cfg.Workloads.Join(netns))
}

func (s *Status) changedWorkload(info workload.Info, err error) (admin.Workload, error) {
	if err != nil {
		return admin.Workload{}, workloadError(err)
	}
	row := s.workloadRow(&info, openByWorkload(s.cfg.Anchors.List()))
	row.Uses = s.uses(info.Account, s.usages())
	addDestinations(&row, s.destinations()[info.ID])
	return row, nil
}

// workloadError names an error of the Set as the admin API does.
func workloadError(err error) error {
	switch {
	case errors.Is(err, workload.ErrOwn):
		return admin.ErrOwnWorkload
	case errors.Is(err, workload.ErrUnknown):
		return admin.ErrUnknownWorkload
	}
	return err
}

// openByWorkload counts connections by the network namespace of their client. Those that came to a bound socket are of clients elsewhere.
func openByWorkload(list []anchor.Info) map[workload.ID]uint64 {
	open := map[workload.ID]uint64{}
	for i := range list {
		if !list[i].Bound {
			open[list[i].Workload]++
		}
	}
	return open
}

var workloadStates = map[workload.State]string{
	workload.Served:   admin.WorkloadServed,
	workload.Leaving:  admin.WorkloadLeaving,
	workload.Released: admin.WorkloadReleased,
	workload.Excluded: admin.WorkloadExcluded,
}

func (s *Status) workloadRow(i *workload.Info, open map[workload.ID]uint64) admin.Workload {
	is := &i.Identity
	return admin.Workload{
		ID: uint32(i.ID), Name: nameOf(i), View: s.viewName(i.View), Netns: i.Inode, Cookie: i.Netns, PID: i.PID, Path: i.Path,
		Runtime: is.Runtime, Container: is.Container, PodUID: is.UID, PodNamespace: is.Namespace, Pod: is.Name,
		State: workloadStates[i.State], Why: i.Why, Connections: open[i.ID], Account: uint32(i.Account),
	}
}

// nameOfHost is the name of the daemon's own network namespace.
const nameOfHost = "host"

// nameOf is the first that there is of a pod's or container's name, the name of the namespace's file, and its number, as lsns shows it.
func nameOf(i *workload.Info) string {
	switch {
	case i.ID == workload.Host:
		return nameOfHost
	case i.Identity.String() != "":
		return i.Identity.String()
	case i.Path != "":
		return filepath.Base(i.Path)
	}
	return fmt.Sprintf("netns %d", i.Inode)
}

// namesOf are the names of workloads by their numbers.
func namesOf(infos []workload.Info) map[workload.ID]string {
	names := make(map[workload.ID]string, len(infos))
	for i := range infos {
		names[infos[i].ID] = nameOf(&infos[i])
	}
	return names
}

// Workloads implements metrics.Source.
func (m measured) Workloads() metrics.Workloads {
	c := m.status.cfg.Workloads.Counts()
	return metrics.Workloads{
		Active: uint64(c.Open), Joined: c.Joined, Failed: c.Failed, Left: c.Left, Released: c.Released, Rejoined: c.Rejoined, Excluded: c.Excluded, Refused: c.Refused,
		JoinSeconds: metrics.Durations{Bounds: c.Joins.Bounds, Counts: c.Joins.Counts, Count: c.Joins.Count, Sum: c.Joins.Sum},
	}
}

// WorkloadList implements metrics.Source.
func (m measured) WorkloadList() []metrics.Workload {
	rows := m.status.Workloads()
	list, seen := make([]metrics.Workload, 0, len(rows)), map[uint32]bool{}
	for i := range rows {
		list = append(list, measuredWorkload(&rows[i], seen))
	}
	return list
}

// measuredWorkload has what a row shows. seen are the accounts that have been counted: see usesOf.
func measuredWorkload(w *admin.Workload, seen map[uint32]bool) metrics.Workload {
	return metrics.Workload{
		ID: w.ID, Netns: w.Netns, Name: w.Name, View: w.View, State: w.State, Connections: w.Connections,
		PodNamespace: w.PodNamespace, Pod: w.Pod, PodUID: w.PodUID, Container: w.Container, Runtime: w.Runtime, Uses: usesOf(w, seen),
		Destinations: destinationsOf(w),
	}
}

// NRI implements metrics.Source.
func (m measured) NRI() *metrics.NRI {
	if m.status.cfg.NRI == nil {
		return nil
	}
	s := m.status.cfg.NRI()
	return &metrics.NRI{Connected: s.Connected, Pods: s.Pods, Late: s.Late, LeftOut: s.LeftOut, Lost: s.Lost, Failed: s.Failed}
}

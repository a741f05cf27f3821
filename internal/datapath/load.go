// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// readSpec reads what is to be loaded.
func readSpec() (*ebpf.CollectionSpec, error) {
	spec, err := loadXlb()
	if err != nil {
		return nil, fmt.Errorf("read kernel programs: %w", err)
	}
	nameFirst(spec)
	for _, m := range spec.Maps {
		if m.Type == ebpf.SockHash || m.Type == ebpf.SockMap {
			// The kernel takes no description of their keys and values, and says so after a grace period: each would wait one.
			m.Key, m.Value = nil, nil
		}
	}
	return spec, nil
}

// newCollection does what ebpf.NewCollection does, but lets the kernel verify as many programs at once as there are processors: the wait for
// its verifier is most of a start.
func newCollection(spec *ebpf.CollectionSpec) (*ebpf.Collection, error) {
	types, bare := btf.NewCache(), withoutPrograms(spec)
	coll, err := ebpf.NewCollectionWithOptions(bare, ebpf.CollectionOptions{Cache: types})
	if err != nil {
		return nil, err
	}
	// What lies in them does so now, and is not to be put in again with each program.
	empty(bare, ebpf.ArrayOfMaps)
	l := &loader{bare: bare, programs: spec.Programs, maps: coll.Maps, types: types, loaded: coll.Programs}
	err = l.loadAll()
	if err == nil {
		err = fillProgramArrays(spec, coll)
	}
	if err != nil {
		coll.Close()
		return nil, err
	}
	return coll, nil
}

// withoutPrograms returns what spec says of maps and constants. Arrays of programs are empty in it.
func withoutPrograms(spec *ebpf.CollectionSpec) *ebpf.CollectionSpec {
	bare := *spec
	bare.Programs = nil
	bare.Maps = maps.Clone(spec.Maps)
	empty(&bare, ebpf.ProgramArray)
	return &bare
}

// empty has the maps of a kind begin with nothing in them.
func empty(spec *ebpf.CollectionSpec, kind ebpf.MapType) {
	for name, m := range spec.Maps {
		if m.Type == kind {
			m = m.Copy()
			m.Contents = nil
			spec.Maps[name] = m
		}
	}
}

// fillProgramArrays puts the programs into the arrays that name them.
func fillProgramArrays(spec *ebpf.CollectionSpec, coll *ebpf.Collection) error {
	for name, m := range spec.Maps {
		if m.Type != ebpf.ProgramArray {
			continue
		}
		for _, place := range m.Contents {
			program := coll.Programs[place.Value.(string)]
			if program == nil {
				return fmt.Errorf("put program %s into map %s: the kernel object has none of that name", place.Value, name)
			}
			if err := coll.Maps[name].Put(place.Key, program); err != nil {
				return fmt.Errorf("put program %s into map %s: %w", place.Value, name, err)
			}
		}
	}
	return nil
}

// loader loads the programs of a collection whose maps exist.
type loader struct {
	bare     *ebpf.CollectionSpec
	programs map[string]*ebpf.ProgramSpec
	maps     map[string]*ebpf.Map
	types    *btf.Cache

	mu     sync.Mutex
	waits  []string // names, the next one first
	loaded map[string]*ebpf.Program
	err    error // the first
}

// loadAll returns when nothing is being loaded any more. After an error no further program is begun.
func (l *loader) loadAll() error {
	l.waits = slices.SortedFunc(maps.Keys(l.programs), func(a, b string) int {
		// The longest first: the others pass beside it.
		return cmp.Compare(len(l.programs[b].Instructions), len(l.programs[a].Instructions))
	})
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for name := l.next(); name != ""; name = l.next() {
				l.keep(name)(l.load(name))
			}
		})
	}
	wg.Wait()
	return l.err
}

// next returns the name of a program to load; "" is none.
func (l *loader) next() (name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil || len(l.waits) == 0 {
		return ""
	}
	name, l.waits = l.waits[0], l.waits[1:]
	return name
}

func (l *loader) keep(name string) func(*ebpf.Program, error) {
	return func(p *ebpf.Program, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if err == nil {
			l.loaded[name] = p
		} else if l.err == nil {
			l.err = err
		}
	}
}

// load loads one program, with the maps that it names.
func (l *loader) load(name string) (*ebpf.Program, error) {
	specs, needed := map[string]*ebpf.MapSpec{}, map[string]*ebpf.Map{}
	for _, instruction := range l.programs[name].Instructions {
		reference := instruction.Reference()
		if m, ok := l.maps[reference]; ok && instruction.IsLoadFromMap() {
			specs[reference], needed[reference] = l.bare.Maps[reference], m
		}
	}
	one := *l.bare
	one.Programs, one.Maps, one.Variables = map[string]*ebpf.ProgramSpec{name: l.programs[name]}, specs, nil
	coll, err := ebpf.NewCollectionWithOptions(&one, ebpf.CollectionOptions{MapReplacements: needed, Cache: l.types})
	if err != nil {
		return nil, err
	}
	defer coll.Close()
	return coll.DetachProgram(name), nil
}
